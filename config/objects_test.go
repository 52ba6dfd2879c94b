// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/managedworkload/managedworkload/api/subresources/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/subresources"
)

// withObjects is config/default with the component objects.
var withObjects = kustomization{base: "default", components: []string{"objects"}}

// The API server finds the aggregated API whatever namespace and prefix a user chooses.
func TestAPIServiceLeadsToTheManager(t *testing.T) {
	for name, k := range map[string]kustomization{
		"default":              withObjects,
		"with a namePrefix":    {base: "default", components: withObjects.components, edit: "namePrefix: team-a-\n"},
		"with a nameSuffix":    {base: "default", components: withObjects.components, edit: "nameSuffix: -blue\n"},
		"in another namespace": {base: "default", components: withObjects.components, edit: "namespace: other-system\n", namespace: "other-system"},
	} {
		t.Run(name, func(t *testing.T) {
			objects := k.render(t)
			i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "APIService" })
			service := only[corev1.Service](t, objects, "Service", "subresources")
			got, _, err := unstructured.NestedMap(objects[i].Object, "spec")
			want := map[string]any{
				"group": v1alpha1.GroupVersion.Group, "version": v1alpha1.GroupVersion.Version,
				"groupPriorityMinimum": int64(1000), "versionPriority": int64(15),
				"service": map[string]any{"name": service.Name, "namespace": k.installed(), "port": int64(service.Spec.Ports[0].Port)},
			}
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("APIService, error %v (-want +got):\n%s", err, diff)
			}
			if objects[i].GetName() != v1alpha1.GroupVersion.Version+"."+v1alpha1.GroupVersion.Group {
				t.Errorf("APIService %s", objects[i].GetName())
			}
			if secret := only[corev1.Secret](t, objects, "Secret", "subresources"); secret.Name != service.Name {
				t.Errorf("Secret %s beside Service %s: one flag names both", secret.Name, service.Name)
			}
		})
	}
}

// What the component switches on fits the defaults of the manager's flags.
func TestManagerServesTheAggregatedAPI(t *testing.T) {
	objects := withObjects.render(t)
	container := only[appsv1.Deployment](t, objects, "Deployment", "manager").Spec.Template.Spec.Containers[0]
	var o subresources.Options
	flags := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	o.AddFlags(flags)
	if err := flags.Parse(container.Args); err != nil {
		t.Fatal(err)
	}
	port := slices.IndexFunc(container.Ports, func(p corev1.ContainerPort) bool { return p.Name == "subresources" })
	if !o.Enabled() || o.Validate() != nil || port < 0 || container.Ports[port].ContainerPort != 9444 || !strings.HasSuffix(o.BindAddress, ":9444") {
		t.Errorf("served at %q, ports %+v", o.BindAddress, container.Ports)
	}
	if !slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == o.CertificateDir }) {
		t.Errorf("no place for the certificate: %+v", container.VolumeMounts)
	}
	if name := only[corev1.Secret](t, objects, "Secret", "subresources").Name; name != o.Name {
		t.Errorf("Secret %s, want %s", name, o.Name)
	}
}

// Without the component there is no aggregated API, and the manager may read no object of a tenant.
// The roles for people name it: they are the same with and without the component.
func TestDefaultHasNoAggregatedAPI(t *testing.T) {
	for _, object := range (kustomization{base: "default"}).render(t) {
		content, err := object.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if object.GetKind() == "ClusterRole" && slices.Contains([]string{"managedworkload-editor", "managedworkload-viewer"}, object.GetName()) {
			continue
		}
		if strings.Contains(string(content), "subresources") && object.GetKind() != "CustomResourceDefinition" || object.GetKind() == "APIService" {
			t.Errorf("%s %s", object.GetKind(), object.GetName())
		}
	}
}

// Nothing gives the manager tokens of all namespaces: one of them would be a cluster administrator's.
func TestNoTokensOfAllNamespaces(t *testing.T) {
	objects := withObjects.render(t)
	for _, object := range objects {
		if object.GetKind() != "ClusterRoleBinding" {
			continue
		}
		role, _, _ := unstructured.NestedString(object.Object, "roleRef", "name")
		for _, other := range objects {
			if content, err := other.MarshalJSON(); err != nil || other.GetKind() == "ClusterRole" && other.GetName() == role && strings.Contains(string(content), "serviceaccounts/token") {
				t.Errorf("ClusterRoleBinding %s gives tokens of all namespaces, error %v", object.GetName(), err)
			}
		}
	}
}

// The manager may read what a namespace gives it, and make tokens of the accounts that it names;
// everything only with objects-everywhere.
func TestWhoReadsObjects(t *testing.T) {
	everywhere := kustomization{base: "default", components: []string{"objects", "objects-everywhere"}, edit: "namePrefix: team-a-\n"}
	tests := map[string]struct {
		k    kustomization
		want int
	}{
		"objects":            {withObjects, 0},
		"objects-everywhere": {everywhere, 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			objects := tc.k.render(t)
			for _, name := range []string{"managedworkload-objects", "managedworkload-tokens"} {
				role := only[rbacv1.ClusterRole](t, objects, "ClusterRole", name).Name
				bound := 0
				for _, object := range objects {
					if ref, _, _ := unstructured.NestedString(object.Object, "roleRef", "name"); ref == role {
						bound++
						if object.GetKind() != "ClusterRoleBinding" {
							t.Errorf("%s %s", object.GetKind(), object.GetName())
						}
					}
				}
				if bound != tc.want {
					t.Errorf("%d bindings of %s, want %d", bound, role, tc.want)
				}
			}
		})
	}
}
