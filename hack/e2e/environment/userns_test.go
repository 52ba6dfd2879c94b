// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// A node that can't isolate users starts nothing of such a workload, and keeps what runs
// until it can.
func TestRuntimeWithoutUserNamespaces(t *testing.T) {
	t.Parallel()
	if handlers(t)[""].GetUserNamespaces() {
		t.Skip("the runtime has user namespaces")
	}
	const words = "can't set `spec.hostUsers: false`, runtime does not support user namespaces"
	plain := fmt.Sprintf("containers: [{name: c, image: %s, args: [serve]}]", testImage)
	awaitRefused(t, env.Apply(t, "hostUsers: false\n"+plain), "PodFeatureUnsupported", words)

	w := env.Apply(t, plain)
	before := w.AwaitReady().Status.ContainerStatuses[0].ContainerID
	w.Change(func(tmpl *corev1.PodTemplateSpec) { tmpl.Spec.HostUsers = new(false) })
	nw := awaitRefused(t, w, "PodFeatureUnsupported", words)
	if now := nw.Status.ContainerStatuses[0]; now.ContainerID != before || now.State.Running == nil {
		t.Errorf("%s ran, now %+v", before, now)
	}
	w.Change(func(tmpl *corev1.PodTemplateSpec) { tmpl.Spec.HostUsers = nil })
	nw = w.Await("its template is accepted", func(nw *v1alpha1.NodeWorkload) bool {
		return meta.IsStatusConditionTrue(nw.Status.Conditions, v1alpha1.ConditionTemplateAccepted)
	})
	if now := nw.Status.ContainerStatuses[0].ContainerID; now != before {
		t.Errorf("%s runs instead of %s", now, before)
	}
}
