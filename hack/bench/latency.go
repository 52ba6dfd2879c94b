// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/criproxy"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
	"github.com/managedworkload/managedworkload/hack/localstack"
)

// latency applies and deletes a workload, and makes the requests that the shim
// made for it by hand, in turn, so that both see the same machine.
func (b *bench) latency(ctx context.Context, what string, rounds int, of func(string) *v1alpha1.ManagedWorkload) error {
	start := comparison{what: "apply to Running, " + what, stages: startStages, goal: goalStart}
	end := comparison{what: "delete to gone, " + what, stages: endStages, goal: goalEnd}
	for i := range rounds + 1 {
		r, err := b.round(ctx, i, of)
		if err != nil {
			return fmt.Errorf("round %d: %w", i, err)
		}
		if i == 0 {
			continue // it warms up
		}
		start.add(r.start, r.startCalls, r.startByHand)
		end.add(r.end, r.endCalls, r.endByHand)
	}
	start.print()
	end.print()
	return nil
}

func (c *comparison) add(shim stageTimes, calls []criproxy.Call, byHand stageTimes) {
	c.shim, c.byHand = append(c.shim, shim), append(c.byHand, byHand)
	c.calls = calls
}

// round is one life by ManagedWorkload and one by hand.
type round struct {
	start, end             stageTimes
	startCalls, endCalls   []criproxy.Call
	startByHand, endByHand stageTimes
}

func (b *bench) round(ctx context.Context, i int, of func(string) *v1alpha1.ManagedWorkload) (r round, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	b.recorder.take()
	mw := of(fmt.Sprintf("bench-%d", i))
	started, err := b.apply(ctx, mw)
	if err != nil {
		return r, err
	}
	r.startCalls = b.recorder.take()
	ended, err := b.remove(ctx, mw)
	if err != nil {
		return r, err
	}
	r.endCalls = b.recorder.take()
	if r.start, err = startTimes(started, r.startCalls); err != nil {
		return r, err
	}
	r.end = endTimes(ended, r.endCalls)
	pod := &played{name: fmt.Sprintf("by-hand-%d", i), ids: map[string]string{}}
	if r.startByHand, err = b.player.play(ctx, scriptOf(r.startCalls), pod); err != nil {
		return r, err
	}
	b.script = scriptOf(append(r.startCalls, r.endCalls...))
	r.endByHand, err = b.player.play(ctx, scriptOf(r.endCalls), pod)
	return r, err
}

func workload(name string, hostNetwork bool) *v1alpha1.ManagedWorkload {
	return &v1alpha1.ManagedWorkload{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault},
		Spec: v1alpha1.ManagedWorkloadSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			HostNetwork: hostNetwork,
			Containers:  []corev1.Container{{Name: "c", Image: localstack.ImageV1}},
		}}},
	}
}

func plain(name string) *v1alpha1.ManagedWorkload { return workload(name, false) }

func withHook(name string) *v1alpha1.ManagedWorkload {
	mw := workload(name, false)
	mw.Spec.Template.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{
		Exec: &corev1.ExecAction{Command: []string{localstack.ProgramPath, "sleep", "0s"}},
	}}
	return mw
}

// apply creates a workload and waits until it runs.
func (b *bench) apply(ctx context.Context, mw *v1alpha1.ManagedWorkload) (s seen, err error) {
	node, err := b.watchOne(ctx, &v1alpha1.NodeWorkloadList{}, placement.NodeWorkloadName(mw.Name, b.stack.NodeName()))
	if err != nil {
		return s, err
	}
	defer node.Stop()
	s.asked = time.Now()
	if err := b.kube.Create(ctx, mw); err != nil {
		return s, err
	}
	s.answered = time.Now()
	err = harness.AwaitEvent(ctx, node, func(e watch.Event) bool {
		if s.node.IsZero() {
			s.node = time.Now()
		}
		nw, ok := e.Object.(*v1alpha1.NodeWorkload)
		return ok && nw.Status.Phase == corev1.PodRunning
	})
	s.done = time.Now()
	if err != nil {
		err = fmt.Errorf("wait for Running: %w", err)
	}
	return s, err
}

// remove deletes a workload and waits until it is gone.
func (b *bench) remove(ctx context.Context, mw *v1alpha1.ManagedWorkload) (s seen, err error) {
	node, err := b.watchOne(ctx, &v1alpha1.NodeWorkloadList{}, placement.NodeWorkloadName(mw.Name, b.stack.NodeName()))
	if err != nil {
		return s, err
	}
	defer node.Stop()
	object, err := b.watchOne(ctx, &v1alpha1.ManagedWorkloadList{}, mw.Name)
	if err != nil {
		return s, err
	}
	defer object.Stop()
	s.asked = time.Now()
	if err := b.kube.Delete(ctx, mw); err != nil {
		return s, err
	}
	s.answered = time.Now()
	gone := func(e watch.Event) bool { return e.Type == watch.Deleted }
	if err := harness.AwaitEvent(ctx, node, gone); err != nil {
		return s, fmt.Errorf("wait until the NodeWorkload is gone: %w", err)
	}
	s.node = time.Now()
	if err := harness.AwaitEvent(ctx, object, gone); err != nil {
		return s, fmt.Errorf("wait until it is gone: %w", err)
	}
	s.done = time.Now()
	return s, nil
}

func (b *bench) watchOne(ctx context.Context, list client.ObjectList, name string) (watch.Interface, error) {
	return harness.Watch(ctx, b.kube, list, client.InNamespace(metav1.NamespaceDefault), client.MatchingFields{"metadata.name": name})
}

// awaitDuring reads a watch from before do is done: the API server ends one that is not read.
func awaitDuring(ctx context.Context, w watch.Interface, done func(watch.Event) bool, do func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- harness.AwaitEvent(ctx, w, done) }()
	err := do()
	if err != nil {
		w.Stop()
	}
	return cmp.Or(err, <-ended)
}
