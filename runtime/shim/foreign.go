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

// tellForeign tells once about each container that somebody else runs in a sandbox
// of ours. It is left alone. (The status tells as long as it is there.)
func (o *overseer) tellForeign(ctx context.Context, pods []cri.Pod) {
	found := map[string]bool{}
	for _, p := range pods {
		for _, f := range p.Foreign {
			found[f.ID] = true
			if o.told[f.ID] {
				continue
			}
			logr.FromContextOrDiscard(ctx).Info("A container that the shim did not create runs in a workload's sandbox, it is left alone",
				"workload", p.Namespace+"/"+p.Name, "container", f.Name, "containerID", f.ID, "sandboxID", f.SandboxID)
			about := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID}}
			o.events.Event(about, "", corev1.EventTypeWarning, v1alpha1.ReasonForeignContainers,
				fmt.Sprintf("Container %s (%s), which the shim did not create, runs in the sandbox: it is left alone, and ends with the sandbox", f.Name, f.ID))
		}
	}
	o.told = found
}
