// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/rollout"
)

// newCreateBench has a workload on many nodes without NodeWorkloads; refuse says on which
// none can be created, and asked counts the attempts.
func newCreateBench(t *testing.T, nodes int, refuse func(node string) bool) (b *bench, asked func() int) {
	t.Helper()
	var mu sync.Mutex
	n := 0
	funcs := interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
		if nw, ok := obj.(*v1alpha1.NodeWorkload); ok {
			mu.Lock()
			defer mu.Unlock()
			n++
			if refuse(nw.Spec.NodeName) {
				return errors.New("no " + strings.Repeat("x", 100))
			}
		}
		return c.Create(ctx, obj, opts...)
	}}
	objects := []client.Object{workloadInMemory()}
	for i := range nodes {
		objects = append(objects, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%04d", i)}})
	}
	return newBench(t, funcs, objects...), func() int {
		mu.Lock()
		defer mu.Unlock()
		asked := n
		n = 0
		return asked
	}
}

// What is refused for all nodes is asked once, and said once, in short.
func TestRefusedCreatesAreNotTriedForAll(t *testing.T) {
	b, asked := newCreateBench(t, 5000, func(string) bool { return true })
	for range 3 {
		_, mw, err := b.reconcile()
		if err == nil || len(err.Error()) > 300 || asked() != 1 {
			t.Errorf("error %v", err)
		}
		if events := b.drain(eventFailedCreate); len(events) != 1 || !strings.Contains(events[0], "Error creating 1 of 250 NodeWorkloads: create the NodeWorkload of node") {
			t.Errorf("events %q", events)
		}
		if text := message(mw, v1alpha1.ConditionReady); !strings.Contains(text, "failed: n") || !strings.Contains(text, ": no xxx") || len(text) > 700 {
			t.Errorf("Ready %q", text)
		}
	}
}

// inTurn are the nodes of newCreateBench in the order in which a roll-out takes them.
func inTurn(n int) []string {
	in := &rollout.Input{Nodes: make([]rollout.Node, n)}
	for i := range in.Nodes {
		in.Nodes[i] = rollout.Node{Name: fmt.Sprintf("n%04d", i), Desired: true, Selected: true, Responds: true}
	}
	var names []string
	for _, c := range rollout.Next(in).Changes {
		names = append(names, in.Nodes[c.Node].Name)
	}
	return names
}

// A batch in which one fails is the last, and the next reconciliation begins with others.
func TestCreatesInDoublingBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := inTurn(200)
		b, asked := newCreateBench(t, len(nodes), func(node string) bool { return node == nodes[2] || node == nodes[100] })
		for i, want := range []int{
			1 + 2,                        // with nodes[2]
			1 + 2 + 4 + 8 + 16 + 32 + 64, // from nodes[3] on, with nodes[100]
			200 - 3 - 127 + 2, 1, 1,      // and both again
		} {
			_, _, err := b.reconcile()
			if got := asked(); got != want {
				t.Errorf("%d: %d were tried, want %d", i, got, want)
			}
			if err == nil {
				t.Errorf("%d: no error", i)
			}
		}
		if n := b.fleet.Shares.Count("mw"); n != 198 {
			t.Errorf("%d NodeWorkloads, want 198", n)
		}
	})
}
