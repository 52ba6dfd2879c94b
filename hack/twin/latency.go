// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
)

// latency is how long one round took.
type latency struct{ ready, gone time.Duration }

// measure takes turns with a plain template on an idle machine, so that both
// sides see the same: apply to Ready and delete to gone.
func (t *twin) measure(ctx context.Context, out io.Writer) error {
	if t.opts.rounds == 0 {
		return nil
	}
	var kubelet, shim []latency
	for i := range t.opts.rounds + 1 {
		k, err := t.round(ctx, t.kubelet, fmt.Sprintf("latency-%d", i), &corev1.PodList{})
		if err != nil {
			return fmt.Errorf("measure the kubelet: %w", err)
		}
		s, err := t.round(ctx, t.shim, fmt.Sprintf("latency-%d", i), &v1alpha1.ManagedWorkloadList{})
		if err != nil {
			return fmt.Errorf("measure the shim: %w", err)
		}
		if i > 0 { // the first round warms up
			kubelet, shim = append(kubelet, k), append(shim, s)
		}
	}
	p := &printer{out: out}
	for _, what := range []struct {
		name string
		of   func(latency) time.Duration
	}{
		{"apply to Ready", func(l latency) time.Duration { return l.ready }},
		{"delete to gone", func(l latency) time.Duration { return l.gone }},
	} {
		k, s := median(kubelet, what.of), median(shim, what.of)
		p.printf("%-15s kubelet %5d ms, ManagedWorkload %5d ms, ratio %.2f (medians of %d)\n",
			what.name+":", k.Milliseconds(), s.Milliseconds(), float64(s)/float64(k), len(kubelet))
	}
	return p.err
}

// round starts and deletes one workload. It is gone when the object that was
// applied is: that is what kubectl delete waits for.
func (t *twin) round(ctx context.Context, side side, name string, list client.ObjectList) (latency, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	object, err := harness.Watch(ctx, t.kube, list, client.InNamespace(namespace), client.MatchingFields{"metadata.name": name})
	if err != nil {
		return latency{}, err
	}
	defer object.Stop()
	p := &pairing{side: side, name: name}
	begin := time.Now()
	if err := side.create(ctx, name, metav1.ObjectMeta{}, corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: serve("c").Image}}}); err != nil {
		return latency{}, err
	}
	if err := p.await(ctx, func(s sighting) bool { return ready(&s.status) }); err != nil {
		return latency{}, fmt.Errorf("wait for Ready: %w", err)
	}
	l := latency{ready: time.Since(begin)}
	// The kubelet is busy with the start for a while.
	if err := pause(ctx, settle); err != nil {
		return l, err
	}
	begin = time.Now()
	if err := side.remove(ctx, name, nil); err != nil {
		return l, err
	}
	if err := harness.AwaitEvent(ctx, object, func(e watch.Event) bool { return e.Type == watch.Deleted }); err != nil {
		return l, fmt.Errorf("wait until it is gone: %w", err)
	}
	l.gone = time.Since(begin)
	return l, nil
}

func median(list []latency, of func(latency) time.Duration) time.Duration {
	var times []time.Duration
	for _, l := range list {
		times = append(times, of(l))
	}
	slices.Sort(times)
	return times[len(times)/2]
}
