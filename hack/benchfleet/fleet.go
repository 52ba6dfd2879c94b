// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/localstack"
	"github.com/managedworkload/managedworkload/hack/simnode"
	"github.com/managedworkload/managedworkload/runtime/shim"
)

const (
	namespace = "bench"
	// labelFleet is on all Nodes of the fleet, labelFirst on the first one.
	labelFleet, labelFirst = "bench/fleet", "bench/first"
	// gaugeWorkload runs on the first node only, which never falls silent.
	gaugeWorkload = "gauge"
	imageV1       = "bench.example/app:1"
	imageV2       = "bench.example/app:2"
)

// fleet is a running bench.
type fleet struct {
	options  options
	stack    *localstack.Stack
	api      client.WithWatch
	kube     rest.Interface
	observer *observer
	shims    *shims
	// leases of the first and of the second half of the nodes.
	leases [2]*leases
	// rest is how much of a core the manager uses at rest.
	rest   float64
	phases []Phase
	// uids are those of the Nodes, and objects what the first workload refers to.
	uids      []types.UID
	objects   []version
	receivers *receivers
	running   context.Context // done when the bench ends
	stop      []func()
}

// start brings up the stack, and the nodes without any workload.
func start(ctx context.Context, o options) (f *fleet, err error) {
	ctrl.SetLogger(logr.Discard()) // of the bench's own cache
	dir, err := os.MkdirTemp("", "mw-fleet-")
	if err != nil {
		return nil, fmt.Errorf("make the state folder: %w", err)
	}
	f = &fleet{options: o, observer: newObserver()}
	f.stack, err = localstack.Start(ctx, localstack.Options{
		StateDir: dir, Progress: os.Stderr, WithoutRuntime: true, Binary: o.binary, Config: o.config, ManagerArgs: o.managerArgs,
		WithObjects: o.objects > 0, Controllers: controllers,
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	f.running, f.stop = ctx, append(f.stop, cancel)
	if err = errors.Join(f.connect(ctx), f.makeObjects(ctx), f.makeNodes(ctx)); err != nil {
		return nil, errors.Join(err, f.close(ctx))
	}
	return f, nil
}

// connect makes the clients, the simulated shims and what observes them.
func (f *fleet) connect(ctx context.Context) error {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return fmt.Errorf("build the scheme: %w", err)
	}
	cfg := shimConfig(f.stack.RESTConfig())
	clientset, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	f.kube = clientset.RESTClient()
	if f.api, err = client.NewWithWatch(cfg, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	c, err := cache.New(cfg, cache.Options{Scheme: scheme, DefaultTransform: cache.TransformStripManagedFields()})
	if err != nil {
		return err
	}
	f.receivers = newReceivers(cfg)
	f.stop = append(f.stop, f.receivers.group.Wait)
	f.shims = newShims(c, f.api, shim.NewPublisher(c, f.api, f.api), f.options.times)
	group := errgroup.Group{}
	group.Go(func() error { return c.Start(ctx) })
	group.Go(func() error { f.shims.run(ctx); return nil })
	f.stop = append(f.stop, func() { _ = group.Wait() })
	group.Go(func() error { f.observer.watchWorkloads(ctx, f.api); return nil })
	if err := f.observer.watchNodes(ctx, c, func(key types.NamespacedName) { f.shims.queue.Add(key) }); err != nil {
		return err
	}
	if f.options.watchPerNode {
		f.watchEachNode(ctx, cfg)
	}
	return f.api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
}

func nodeName(i int) string { return fmt.Sprintf("n%05d", i) }

// makeNodes makes the Nodes with the Leases of their shims.
func (f *fleet) makeNodes(ctx context.Context) error {
	progress("Making %d nodes", f.options.nodes)
	halves := [2][]string{}
	f.uids = make([]types.UID, f.options.nodes)
	for i := range f.options.nodes {
		half := i * len(halves) / f.options.nodes
		halves[half] = append(halves[half], nodeName(i))
	}
	_, err := inParallel(ctx, f.options.nodes, func(ctx context.Context, i int) error {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(i), Labels: map[string]string{labelFleet: ""}}}
		if i == 0 {
			node.Labels[labelFirst] = ""
		}
		err := f.api.Create(ctx, node)
		f.uids[i] = node.UID
		return err
	})
	for i, nodes := range halves {
		f.leases[i] = &leases{api: f.api, nodes: nodes, once: f.options.leaseOnce}
		f.leases[i].start(ctx)
	}
	f.stop = append(f.stop, func() { f.leases[0].stop(); f.leases[1].stop() })
	return errors.Join(err, pause(ctx, spread(f.options.nodes)+time.Second))
}

// newWorkload is one on the nodes with a label.
func newWorkload(name, label string, bytes int) *v1alpha1.ManagedWorkload {
	mw := &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	mw.Spec.Template = simnode.Template(imageV1, bytes)
	mw.Spec.Template.Spec.NodeSelector = map[string]string{label: ""}
	return mw
}

func workloadName(i int) string { return fmt.Sprintf("workload-%d", i) }

// gauges are one for each workload but the first, on its first node, and the small one.
func (f *fleet) gauges() []gauge {
	list := []gauge{gaugeOf(gaugeWorkload)}
	for i := 1; i < f.options.workloads; i++ {
		list = append(list, gaugeOf(workloadName(i)))
	}
	return list
}

func gaugeOf(workload string) gauge {
	return gauge{workload, types.NamespacedName{Namespace: namespace, Name: placement.NodeWorkloadName(workload, nodeName(0))}}
}

// close ends everything.
func (f *fleet) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute)
	defer cancel()
	for _, stop := range f.stop {
		stop()
	}
	return f.stack.Stop(ctx)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// atOnce is how many requests inParallel makes at the same time.
const atOnce = 32

// inParallel does something for each of n numbers, some at once.
func inParallel(ctx context.Context, n int, do func(context.Context, int) error) (time.Duration, error) {
	begun := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	err := group.Wait()
	return time.Since(begun), err
}
