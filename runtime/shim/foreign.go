// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/cri"
)

// reportForeign makes one event about each container in a sandbox of ours that the
// shim did not create. It is left alone. (The status has a condition as long as it
// is there.)
func (o *overseer) reportForeign(ctx context.Context, pods []cri.Pod) {
	found := map[string]bool{}
	for _, p := range pods {
		for _, f := range p.Foreign {
			found[f.ID] = true
			if o.reported[f.ID] {
				continue
			}
			logr.FromContextOrDiscard(ctx).Info("A container that this shim did not create runs in a workload's sandbox; it is left alone",
				"workload", p.Namespace+"/"+p.Name, "container", f.Name, "containerID", f.ID, "sandboxID", f.SandboxID)
			about := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID}}
			o.events.Event(about, "", corev1.EventTypeWarning, v1alpha1.ReasonForeignContainers,
				fmt.Sprintf("Container %s (%s), which the shim did not create, runs in the sandbox. It is left alone and ends with the sandbox", f.Name, f.ID))
		}
	}
	o.reported = found
}
