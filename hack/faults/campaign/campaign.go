// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package campaign runs two dozen workloads on a local stack, makes faults from a
// seed at random points of their starts, syncs and kills, and has package history
// judge what the containers' own journals say afterwards.
package campaign

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/hack/criproxy"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
	"github.com/managedworkload/managedworkload/hack/faults/history"
	"github.com/managedworkload/managedworkload/hack/faults/inject"
	"github.com/managedworkload/managedworkload/hack/localstack"
	"github.com/managedworkload/managedworkload/runtime/clock"
)

const (
	// namespace holds the workloads.
	namespace = "faults"
	// drainTimeout is what the workloads have to end when all faults are healed.
	drainTimeout = 4 * time.Minute
	// warmUp is the time before the first fault.
	warmUp = 10 * time.Second
)

// Options of a campaign.
type Options struct {
	Seed uint64
	// Faults is how many are made, Workloads how many names there are.
	Faults, Workloads int
	// Binary is the managedworkload program; empty builds it from this tree.
	Binary string
	// Keep is a folder that gets journals and logs when there are violations.
	Keep string
	// Progress gets a line for each fault.
	Progress io.Writer
}

// Result is what a campaign found.
type Result struct {
	history.Report
	// Faults are those that were made, by kind.
	Faults map[Kind]int
	Took   time.Duration
}

// campaign is a running one.
type campaign struct {
	opts  Options
	stack *localstack.Stack
	kube  client.WithWatch
	cri   *localstack.CRI
	proxy *criproxy.Proxy
	disk  *inject.Disk
	etcd  *inject.Etcd
	// One fault of the disk, or of etcd, at a time: the next would end it, or find it down.
	diskTurn, etcdTurn sync.Mutex

	services map[string]*inject.Service
	observer *observer
	requests *requests
	calls    *calls
	baseline leftovers
	made     *made
}

// Run runs a campaign and removes everything that it has made.
func Run(ctx context.Context, opts Options) (result Result, err error) {
	began := time.Now()
	// Unix sockets live below: the path has to be short.
	dir, err := os.MkdirTemp("", "mw-faults-")
	if err != nil {
		return result, fmt.Errorf("make the state folder: %w", err)
	}
	stack, err := localstack.Start(ctx, localstack.Options{StateDir: dir, Progress: opts.Progress, Binary: opts.Binary})
	if err != nil {
		return result, err
	}
	c := &campaign{opts: opts, stack: stack, requests: &requests{}, calls: &calls{}, made: newMade()}
	defer func() {
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Minute)
		defer cancel()
		err = errors.Join(err, c.close(cleanup))
	}()
	if err := c.prepare(ctx); err != nil {
		return result, fmt.Errorf("prepare the stack: %w", err)
	}
	h, err := c.run(ctx)
	if err != nil {
		return result, err
	}
	result = Result{Report: history.Check(h), Faults: c.made.counts(), Took: time.Since(began)}
	if opts.Keep != "" {
		err = c.keep(ctx, h, len(result.Violations) > 0)
	}
	return result, err
}

// prepare puts the faulty disk and the proxy under the shim.
func (c *campaign) prepare(ctx context.Context) (err error) {
	if c.kube, err = harness.Client(c.stack); err != nil {
		return err
	}
	if c.cri, err = c.stack.CRI(); err != nil {
		return err
	}
	if err := c.stack.Shim.Stop(ctx); err != nil {
		return err
	}
	c.disk, err = inject.MountDisk(filepath.Join(c.stack.StateDir(), "disk"), filepath.Join(c.stack.ShimStateDir(), "workloads"))
	if err != nil {
		return err
	}
	socket := filepath.Join(c.stack.StateDir(), "proxy.sock")
	if c.proxy, err = criproxy.Start(socket, c.stack.CRIEndpoint()); err != nil {
		return err
	}
	c.proxy.Observe(c.calls.take)
	args := c.stack.Shim.Args()
	for i, arg := range args {
		if strings.HasPrefix(arg, "--runtime-endpoint=") {
			args[i] = "--runtime-endpoint=unix://" + socket
		}
	}
	c.stack.Shim.SetArgs(args...)
	c.stack.Shim.AddEnv(clock.OffsetFileVariable + "=" + c.offsetFile())
	if err := c.stack.Shim.Start(ctx); err != nil {
		return err
	}
	c.supervised()
	c.observer = newObserver(c.etcd)
	if c.baseline, err = c.look(ctx); err != nil {
		return err
	}
	return c.kube.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
}

// supervised names the components.
func (c *campaign) supervised() {
	c.services = map[string]*inject.Service{}
	for name, component := range map[string]*localstack.Component{
		"shim": c.stack.Shim, "manager": c.stack.Manager, "containerd": c.stack.Containerd,
		"kube-apiserver": c.stack.APIServer, "etcd": c.stack.Etcd,
	} {
		c.services[name] = &inject.Service{Component: component, Name: name}
	}
	c.etcd = &inject.Etcd{
		Service: c.services["etcd"], APIServer: c.services["kube-apiserver"],
		Data: filepath.Join(c.stack.StateDir(), "etcd"), Copies: filepath.Join(c.stack.StateDir(), "copies"),
	}
}

// run drives the workloads, makes the faults, lets everything end and collects
// the history.
func (c *campaign) run(ctx context.Context) (*history.History, error) {
	background, stopBackground := context.WithCancel(ctx)
	var helpers errgroup.Group
	defer func() {
		stopBackground()
		_ = helpers.Wait() // none returns an error
	}()
	for _, s := range c.services {
		helpers.Go(func() error { s.Supervise(background); return nil })
	}
	helpers.Go(func() error { c.observer.watch(background); return nil })
	helpers.Go(func() error { c.confirmOrphans(background); return nil })

	stop := make(chan struct{})
	driving, cancelDriving := context.WithCancel(ctx)
	defer cancelDriving()
	var drivers errgroup.Group
	for i := range c.opts.Workloads {
		d, err := c.driver(i)
		if err != nil {
			return nil, err
		}
		drivers.Go(func() error { return d.run(driving, stop) })
	}
	pause(ctx, nil, warmUp)
	err := c.makeFaults(ctx)
	close(stop)
	timer := time.AfterFunc(drainTimeout, cancelDriving)
	defer timer.Stop()
	undrained := drivers.Wait()
	if err := errors.Join(err, ctx.Err()); err != nil {
		return nil, err
	}
	return c.collect(ctx, undrained)
}

func (c *campaign) driver(i int) (*driver, error) {
	workload := fmt.Sprintf("w%02d", i)
	d := &driver{
		kube: c.kube, requests: c.requests, workload: workload, dir: filepath.Join(c.stack.Scratch(), workload),
		dice: rand.New(rand.NewPCG(c.opts.Seed, uint64(100+i))),
	}
	return d, os.MkdirAll(d.dir, 0o777)
}

// close removes everything, the stack included.
func (c *campaign) close(ctx context.Context) error {
	var errs []error
	if c.proxy != nil {
		errs = append(errs, c.stack.Shim.Kill(ctx), c.proxy.Close())
	}
	if c.disk != nil {
		errs = append(errs, c.stack.Shim.Kill(ctx), c.disk.Unmount())
	}
	if c.cri != nil {
		errs = append(errs, c.cri.Close())
	}
	return errors.Join(append(errs, c.stack.Stop(ctx))...)
}
