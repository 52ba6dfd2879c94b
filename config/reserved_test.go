// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"

	"github.com/managedworkload/managedworkload/controllers/fleet"
	"github.com/managedworkload/managedworkload/controllers/reservation"
)

// systemCritical is the priority from which on the kubelet kills other Pods of the node to make
// room, also for a resize. (kubernetes pkg/apis/scheduling/types.go:SystemCriticalPriority)
const systemCritical = 2_000_000_000

// What reserves is where the shims are, under the names the manager looks for, can be resized,
// and makes nothing else of the node end: whatever a user calls it, and for labelled nodes, too.
func TestReserved(t *testing.T) {
	for name, k := range map[string]kustomization{
		"default": {base: "default"}, "with a namePrefix": {base: "default", edit: "namePrefix: team-a-\n"},
		"labelled": {base: "default", components: []string{"labelled-nodes"}},
	} {
		t.Run(name, func(t *testing.T) {
			objects := k.render(t)
			template := only[appsv1.DaemonSet](t, objects, "DaemonSet", "reserved").Spec.Template
			for key, value := range reservation.Labels {
				if template.Labels[key] != value {
					t.Errorf("label %s is %q, want %q", key, template.Labels[key], value)
				}
			}
			class := only[schedulingv1.PriorityClass](t, objects, "PriorityClass", "reserved")
			if class.Name != template.Spec.PriorityClassName || class.Value >= systemCritical || class.PreemptionPolicy == nil || *class.PreemptionPolicy != corev1.PreemptNever {
				t.Errorf("the Pod's priority class %q is %+v", template.Spec.PriorityClassName, class)
			}
			shim := only[appsv1.DaemonSet](t, objects, "DaemonSet", "shim").Spec.Template.Spec
			if diff := cmp.Diff(shim.NodeSelector, template.Spec.NodeSelector) + cmp.Diff(shim.Affinity, template.Spec.Affinity) + cmp.Diff(shim.Tolerations, template.Spec.Tolerations); diff != "" {
				t.Errorf("nodes (-shim +reserved):\n%s", diff)
			}
			if len(template.Spec.Containers) != 1 {
				t.Fatalf("containers %+v", template.Spec.Containers)
			}
			c := template.Spec.Containers[0]
			if c.Name != reservation.Container || len(c.Resources.Limits) > 0 || fleet.AmountIn(c.Resources.Requests) != reservation.Own {
				t.Errorf("container %s has %+v", c.Name, c.Resources)
			}
			want := []corev1.ContainerResizePolicy{
				{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.NotRequired}, {ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.NotRequired},
			}
			if diff := cmp.Diff(want, c.ResizePolicy); diff != "" {
				t.Errorf("resize policy (-want +got):\n%s", diff)
			}
		})
	}
}

// Who reserves by other means has nothing of it but the flag.
func TestWithoutReserved(t *testing.T) {
	objects := kustomization{base: "default", components: []string{"without-reserved"}}.render(t)
	for _, object := range objects {
		if object.GetLabels()["app.kubernetes.io/component"] == "reserved" || object.GetName() == "managedworkload-reserved" {
			t.Errorf("%s %s", object.GetKind(), object.GetName())
		}
	}
	if args := only[appsv1.Deployment](t, objects, "Deployment", "manager").Spec.Template.Spec.Containers[0].Args; !slices.Contains(args, "--reserve=false") {
		t.Errorf("the manager's arguments are %q", args)
	}
}
