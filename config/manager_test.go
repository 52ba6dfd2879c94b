// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// What is there before what needs it: CRDs and rights in any order that kustomize makes,
// the policies only where it keeps that of config/default.
func TestOrder(t *testing.T) {
	tests := map[string]struct {
		edit string
		want []string
	}{
		"sorted by kustomize": {
			edit: "sortOptions: {order: legacy}\n",
			want: []string{"Namespace", "CustomResourceDefinition", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Deployment", "DaemonSet"},
		},
		"as they stand": {
			edit: "sortOptions: {order: fifo}\n",
			want: []string{
				"CustomResourceDefinition", "Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding",
				"ValidatingAdmissionPolicy", "Secret", "Deployment", "DaemonSet",
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			last := -1
			objects := kustomization{base: "default", edit: tc.edit}.render(t)
			for _, kind := range tc.want {
				first := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == kind })
				if first <= last {
					t.Errorf("%s is number %d, after number %d", kind, first, last)
				}
				last = first
			}
		})
	}
}

func TestManagerIsAvailable(t *testing.T) {
	objects := kustomization{base: "default"}.render(t)
	deployment := only[appsv1.Deployment](t, objects, "Deployment", "manager")
	pod := deployment.Spec.Template
	if replicas := ptr.Deref(deployment.Spec.Replicas, 1); replicas != 2 || !slices.Contains(pod.Spec.Containers[0].Args, "--leader-elect") {
		t.Errorf("%d replicas with %q", replicas, pod.Spec.Containers[0].Args)
	}
	budget := only[policyv1.PodDisruptionBudget](t, objects, "PodDisruptionBudget", "")
	if diff := cmp.Diff(deployment.Spec.Selector, budget.Spec.Selector); diff != "" {
		t.Errorf("the budget selects other Pods (-Deployment +budget):\n%s", diff)
	}
	if got := budget.Spec.MaxUnavailable; got == nil || got.IntValue() != 1 {
		t.Errorf("maxUnavailable of the budget is %v", got)
	}
	for _, constraint := range pod.Spec.TopologySpreadConstraints {
		if constraint.WhenUnsatisfiable != corev1.ScheduleAnyway {
			t.Errorf("on a cluster of one node %s keeps a manager waiting", constraint.TopologyKey)
		}
		if diff := cmp.Diff(deployment.Spec.Selector, constraint.LabelSelector); diff != "" {
			t.Errorf("%s spreads other Pods (-Deployment +constraint):\n%s", constraint.TopologyKey, diff)
		}
	}
	production := only[appsv1.Deployment](t, kustomization{base: "overlays/production"}.render(t), "Deployment", "manager")
	constraint := production.Spec.Template.Spec.TopologySpreadConstraints[0]
	if constraint.TopologyKey != corev1.LabelHostname || constraint.WhenUnsatisfiable != corev1.DoNotSchedule {
		t.Errorf("in production two managers may share a node: %+v", constraint)
	}
	// On a cluster of one node the skew alone refuses nothing.
	if replicas := ptr.Deref(deployment.Spec.Replicas, 1); ptr.Deref(constraint.MinDomains, 1) != replicas || constraint.MaxSkew != 1 {
		t.Errorf("on a cluster of one node %d managers share it: %+v", replicas, constraint)
	}
}

// Garbage is collected before the limit of memory is reached.
func TestManagersMemory(t *testing.T) {
	for _, base := range append(folders(t, "overlays"), "default") {
		container := only[appsv1.Deployment](t, kustomization{base: base}.render(t), "Deployment", "manager").Spec.Template.Spec.Containers[0]
		i := slices.IndexFunc(container.Env, func(e corev1.EnvVar) bool { return e.Name == "GOMEMLIMIT" })
		if i < 0 {
			t.Fatalf("%s: no GOMEMLIMIT", base)
		}
		limit, soft := container.Resources.Limits.Memory(), memoryLimit(t, container.Env[i].Value)
		if share := float64(soft) / float64(limit.Value()); math.Abs(share-0.9) > 0.03 {
			t.Errorf("%s: GOMEMLIMIT is %.2f of the limit", base, share)
		}
		if request := container.Resources.Requests.Memory(); request.IsZero() || request.Cmp(*limit) > 0 {
			t.Errorf("%s: %s of memory are requested, %s are the limit", base, request, limit)
		}
	}
}

// memoryLimit reads a GOMEMLIMIT with one of the units that Go's runtime knows.
func memoryLimit(t *testing.T, value string) int64 {
	t.Helper()
	number, found := strings.CutSuffix(value, "B")
	if !found {
		t.Fatalf("GOMEMLIMIT %s has no unit", value)
	}
	return ptr.To(resource.MustParse(number)).Value()
}

// What the manager's container may not do. (hack/e2e/install sees it in force.)
func TestManagerIsConfined(t *testing.T) {
	pod := only[appsv1.Deployment](t, kustomization{base: "default"}.render(t), "Deployment", "manager").Spec.Template.Spec
	wantPod := &corev1.PodSecurityContext{
		RunAsNonRoot: new(true), RunAsUser: ptr.To[int64](65532), RunAsGroup: ptr.To[int64](65532),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	want := &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	if diff := cmp.Diff(wantPod, pod.SecurityContext) + cmp.Diff(want, pod.Containers[0].SecurityContext); diff != "" {
		t.Errorf("security contexts (-want +got):\n%s", diff)
	}
}

// Each priority class of the system that a Pod has is one that the quota allows.
func TestPriorityQuota(t *testing.T) {
	objects := kustomization{base: "default"}.render(t)
	quota := only[corev1.ResourceQuota](t, objects, "ResourceQuota", "")
	if pods := quota.Spec.Hard[corev1.ResourcePods]; pods.Value() < 10_000 {
		t.Errorf("the quota allows %s Pods, too few for a fleet", &pods)
	}
	for _, spec := range podSpecs(t, objects) {
		if strings.HasPrefix(spec.PriorityClassName, "system-") && !slices.Contains(quota.Spec.ScopeSelector.MatchExpressions[0].Values, spec.PriorityClassName) {
			t.Errorf("no quota for the priority class %q", spec.PriorityClassName)
		}
	}
}

func TestShimsAreReplacedByShares(t *testing.T) {
	strategy := only[appsv1.DaemonSet](t, kustomization{base: "default"}.render(t), "DaemonSet", "shim").Spec.UpdateStrategy
	if strategy.RollingUpdate == nil || strategy.RollingUpdate.MaxUnavailable == nil {
		t.Fatalf("strategy %+v", strategy)
	}
	if got := strategy.RollingUpdate.MaxUnavailable; got.Type != intstr.String || !strings.HasSuffix(got.StrVal, "%") {
		t.Errorf("maxUnavailable %s", got)
	}
	labelled := only[appsv1.DaemonSet](t, kustomization{base: "default", components: []string{"labelled-nodes"}}.render(t), "DaemonSet", "shim")
	want := map[string]string{corev1.LabelOSStable: "linux", "managedworkload.dev/runtime": "ready"}
	if diff := cmp.Diff(want, labelled.Spec.Template.Spec.NodeSelector); diff != "" {
		t.Errorf("the shim's nodes (-want +got):\n%s", diff)
	}
}

// Who names a port names one that the Pods have.
func TestNamedPorts(t *testing.T) {
	objects := kustomization{base: "default", components: []string{"network-policy", "prometheus", "objects"}}.render(t)
	var manager, shim []string
	for _, port := range only[appsv1.Deployment](t, objects, "Deployment", "manager").Spec.Template.Spec.Containers[0].Ports {
		manager = append(manager, port.Name)
	}
	for _, port := range only[appsv1.DaemonSet](t, objects, "DaemonSet", "shim").Spec.Template.Spec.Containers[0].Ports {
		shim = append(shim, port.Name)
	}
	for _, rule := range only[networkingv1.NetworkPolicy](t, objects, "NetworkPolicy", "").Spec.Ingress {
		for _, port := range rule.Ports {
			if !slices.Contains(manager, port.Port.StrVal) {
				t.Errorf("the network policy admits to port %s", port.Port)
			}
		}
	}
	for _, name := range []string{"webhook", "subresources"} {
		for _, port := range only[corev1.Service](t, objects, "Service", name).Spec.Ports {
			if port.TargetPort.StrVal != name || !slices.Contains(manager, name) {
				t.Errorf("the Service %s leads to port %s", name, &port.TargetPort)
			}
		}
	}
	if !slices.Contains(manager, "metrics") || !slices.Contains(shim, "metrics") {
		t.Errorf("the PodMonitor finds no port in %q and %q", manager, shim)
	}
}

// The addresses of a user, written as docs/operations.md says, are all that may connect
// to the webhook.
func TestNetworkPolicy(t *testing.T) {
	document, err := os.ReadFile(filepath.Join("..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(addresses + moreAddresses) {
		if !strings.Contains(string(document), "\n    "+line) {
			t.Errorf("docs/operations.md has no line %s", line)
		}
	}
	tests := map[string]struct {
		edit string
		want []string
	}{
		"addresses": {want: []string{"10.0.0.0/16", "192.0.2.7/32"}},
		"and more":  {edit: moreAddresses, want: []string{"10.0.0.0/16", "192.0.2.7/32", "fd00::/64"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			k := kustomization{base: "default", components: []string{"network-policy"}, edit: tc.edit}
			var got []string
			for _, rule := range only[networkingv1.NetworkPolicy](t, k.render(t), "NetworkPolicy", "").Spec.Ingress {
				for _, from := range rule.From {
					if from.IPBlock != nil {
						got = append(got, from.IPBlock.CIDR)
					}
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("addresses (-want +got):\n%s", diff)
			}
		})
	}
}
