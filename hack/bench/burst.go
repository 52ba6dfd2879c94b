// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/criproxy"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
	"github.com/managedworkload/managedworkload/hack/localstack"
	"github.com/managedworkload/managedworkload/hack/usage"
)

// burst starts and ends n workloads at once, and then makes the same requests by
// hand, in parallel.
func (b *bench) burst(ctx context.Context, n int) error {
	fmt.Fprintf(os.Stderr, "Starting and ending %d workloads at once\n", n)
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	var shim, byHand [2]cost
	var err error
	if shim[0], err = b.measure(ctx, func() (time.Duration, error) { return b.applyAll(ctx, n) }); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	if shim[1], err = b.measure(ctx, func() (time.Duration, error) { return b.removeAll(ctx, n) }); err != nil {
		return fmt.Errorf("end: %w", err)
	}
	pods, start, end := b.cast(n)
	if byHand[0], err = b.measure(ctx, func() (time.Duration, error) { return b.playAll(ctx, start, pods) }); err != nil {
		return fmt.Errorf("start by hand: %w", err)
	}
	if byHand[1], err = b.measure(ctx, func() (time.Duration, error) { return b.playAll(ctx, end, pods) }); err != nil {
		return fmt.Errorf("end by hand: %w", err)
	}
	for i, what := range []string{"apply to Running", "delete to gone"} {
		a, h := shim[i], byHand[i]
		fmt.Printf("%d at once, %s: ManagedWorkload %d ms, by hand %d ms, ratio %.2f%s\n",
			n, what, a.took.Milliseconds(), h.took.Milliseconds(), float64(a.took)/float64(h.took), goalText(goalBurst))
		fmt.Printf("  CPU in s: %s; by hand: %s\n", list(a.cpu), list(h.cpu))
		fmt.Printf("  requests to the runtime: %s\n  requests to the API server: %s\n", count(a.calls), list(a.api))
	}
	fmt.Println()
	return nil
}

// cost is what something took, and what it took of the parts of the stack.
type cost struct {
	took  time.Duration
	cpu   map[string]float64
	calls []criproxy.Call
	api   map[string]float64
}

func (b *bench) measure(ctx context.Context, do func() (time.Duration, error)) (c cost, err error) {
	b.recorder.take()
	before, err := b.look(ctx)
	if err != nil {
		return c, err
	}
	if c.took, err = do(); err != nil {
		return c, err
	}
	after, err := b.look(ctx)
	if err != nil {
		return c, err
	}
	c.cpu, c.api, c.calls = usage.Since(before.cpu, after.cpu), usage.Since(before.requests, after.requests), b.recorder.take()
	return c, nil
}

// used is what the parts of the stack have used, and what the API server was asked.
type used struct{ cpu, requests map[string]float64 }

func (b *bench) look(ctx context.Context) (used, error) {
	s, u := b.stack, used{cpu: map[string]float64{}}
	for name, c := range map[string]*localstack.Component{
		"etcd": s.Etcd, "kube-apiserver": s.APIServer, "manager": s.Manager, "shim": s.Shim, "containerd": s.Containerd,
	} {
		used, err := usage.CPUTime(c.PID())
		if err != nil {
			return u, err
		}
		u.cpu[name] = used.Seconds()
	}
	var err error
	u.requests, err = b.requests(ctx)
	return u, err
}

// requests counts those to the API server, leases and its own aside.
func (b *bench) requests(ctx context.Context) (map[string]float64, error) {
	text, err := b.stack.Kubectl(ctx, "get", "--raw", "/metrics")
	if err != nil {
		return nil, err
	}
	return usage.Requests(text, "managedworkloads", "nodeworkloads", "pods", "events")
}

// inParallel does something for each of n names at once.
func inParallel(ctx context.Context, n int, do func(context.Context, int) error) (time.Duration, error) {
	began := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	err := group.Wait()
	return time.Since(began), err
}

func burstName(i int) string { return fmt.Sprintf("burst-%d", i) }

func (b *bench) applyAll(ctx context.Context, n int) (time.Duration, error) {
	w, err := harness.Watch(ctx, b.kube, &v1alpha1.NodeWorkloadList{}, client.InNamespace(metav1.NamespaceDefault))
	if err != nil {
		return 0, err
	}
	defer w.Stop()
	began := time.Now()
	running := map[string]bool{}
	err = awaitDuring(ctx, w, func(e watch.Event) bool {
		if nw, ok := e.Object.(*v1alpha1.NodeWorkload); ok && nw.Status.Phase == corev1.PodRunning {
			running[nw.Name] = true
		}
		return len(running) == n
	}, func() error {
		_, err := inParallel(ctx, n, func(ctx context.Context, i int) error {
			return b.kube.Create(ctx, plain(burstName(i)))
		})
		return err
	})
	return time.Since(began), err
}

func (b *bench) removeAll(ctx context.Context, n int) (time.Duration, error) {
	w, err := harness.Watch(ctx, b.kube, &v1alpha1.ManagedWorkloadList{}, client.InNamespace(metav1.NamespaceDefault))
	if err != nil {
		return 0, err
	}
	defer w.Stop()
	began := time.Now()
	gone := 0
	err = awaitDuring(ctx, w, func(e watch.Event) bool {
		if e.Type == watch.Deleted {
			gone++
		}
		return gone == n
	}, func() error {
		_, err := inParallel(ctx, n, func(ctx context.Context, i int) error {
			return b.kube.Delete(ctx, plain(burstName(i)))
		})
		return err
	})
	return time.Since(began), err
}

// cast splits the script of the last round into its start and its end, and makes
// the pods that play it.
func (b *bench) cast(n int) (pods []*played, start, end script) {
	cut := 0
	for i, c := range b.script {
		if c.Method == "StartContainer" {
			cut = i + 1
		}
	}
	for i := range n {
		pods = append(pods, &played{name: "by-hand-" + burstName(i), ids: map[string]string{}})
	}
	return pods, b.script[:cut], b.script[cut:]
}

func (b *bench) playAll(ctx context.Context, s script, pods []*played) (time.Duration, error) {
	return inParallel(ctx, len(pods), func(ctx context.Context, i int) error {
		_, err := b.player.play(ctx, s, pods[i])
		return err
	})
}
