// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/localstack"
)

// awaitServing waits until the test programs that run have taken their signals. A container runs before its
// program does, and a stop signal that comes in between ends a Go program at once, whatever --on-term says.
func (w *Workload) awaitServing() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), Timeout)
	defer cancel()
	for {
		waiting := w.notServing(w.t.Context())
		if len(waiting) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			w.t.Fatalf("the programs of %q run but have not started\n%s", waiting, w.env.tails())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// notServing returns the containers, of all nodes, that run "serve" and have not logged its start.
func (w *Workload) notServing(ctx context.Context) []string {
	w.t.Helper()
	list := &v1alpha1.NodeWorkloadList{}
	of := client.MatchingLabels{v1alpha1.LabelWorkload: placement.LabelValue(w.Name)}
	if err := w.env.Kube.List(ctx, list, client.InNamespace(w.Namespace), of); err != nil {
		w.t.Fatalf("list NodeWorkloads: %v", err)
	}
	var waiting []string
	for _, nw := range list.Items {
		i := slices.IndexFunc(w.env.Stack.Nodes, func(n *localstack.Node) bool { return n.NodeName() == nw.Spec.NodeName })
		if i < 0 {
			continue
		}
		on := w.On(w.env.Stack.Nodes[i])
		statuses := slices.Concat(nw.Status.InitContainerStatuses, nw.Status.ContainerStatuses)
		for _, c := range slices.Concat(nw.Spec.Template.Spec.InitContainers, nw.Spec.Template.Spec.Containers) {
			j := slices.IndexFunc(statuses, func(s corev1.ContainerStatus) bool { return s.Name == c.Name })
			if j < 0 || statuses[j].State.Running == nil || len(c.Args) == 0 || c.Args[0] != "serve" {
				continue
			}
			if !strings.Contains(on.logOf(&nw, c.Name, int(statuses[j].RestartCount)), "started pid=") {
				waiting = append(waiting, nw.Name+"/"+c.Name)
			}
		}
	}
	return waiting
}
