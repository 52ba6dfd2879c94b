// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/cri"
	"github.com/managedworkload/managedworkload/runtime/panics"
	"github.com/managedworkload/managedworkload/runtime/podworker"
)

const (
	// relistHealthy is the time between two lists of the runtime while its events
	// arrive, relistBlind without them.
	relistHealthy = time.Minute
	relistBlind   = time.Second
	// conditionsInterval is how long the runtime's word is good that it and its
	// network are ready.
	conditionsInterval = 5 * time.Second
	// relistForeign is the time between two lists while the runtime is not the
	// shim's own, and between two questions to the API server while orphans wait for a
	// person, or the policies are not enforced.
	relistForeign = 5 * time.Second
	// settleKick lets events gather before the list that they ask for. It is short:
	// until the list, workloads are started beside foreign pods.
	settleKick = 20 * time.Millisecond
	// relistGap is the least time between two lists that events ask for: the end of
	// many workloads makes many events, and each list reads all pods.
	relistGap = 200 * time.Millisecond
)

// criClient is what the overseer needs of the container runtime.
type criClient interface {
	ListPods(ctx context.Context) ([]cri.Pod, error)
	Watch(ctx context.Context, notify func(uid types.UID)) error
	Healthy() bool
	Ready(ctx context.Context) error
	NetworkReady(ctx context.Context) error
	RuntimeInfo(ctx context.Context) (name, version, cgroupDriver string, err error)
	RecordedPod(ctx context.Context, uid types.UID) (*corev1.Pod, error)
}

// workers are the pool as the overseer sees it.
type workers interface {
	SetPresent(ids []podworker.Identity)
	SetUsable(u podworker.Usable)
	SetStaticUsable(u podworker.Usable)
	Wake(uid types.UID) bool
	WakeAll()
}

// overseer watches the container runtime as a whole: whether it answers, whether
// it is the shim's own, and which pods on it have no object.
type overseer struct {
	runtime criClient
	pool    workers
	events  *events
	usable  *usability
	// check is asked at each list.
	check        *clusterCheck
	progress     *progress
	allowForeign bool
	// happened is called when something has happened to a container; it may be nil.
	happened func()
	// firstSeen is called when the runtime answers for the first time.
	firstSeen func(ctx context.Context) error
	// kicked asks for a list soon.
	kicked chan struct{}
	// knowsStatic reports whether a static workload is known, and abandon ends one.
	knowsStatic func(types.UID) bool
	abandon     func(podworker.Identity, *corev1.Pod)

	mu             sync.Mutex
	networkErr     error
	runtimeVersion string

	// What follows belongs to the goroutine of run.
	seen  bool
	asked time.Time
	pods  map[types.UID]cri.Pod
	// reported are the foreign containers that have had their event, by ID.
	reported map[string]bool
}

// syncPoll is the time between two looks at whether the API's list is complete.
const syncPoll = 200 * time.Millisecond

// run lists the runtime until the context is done.
func (o *overseer) run(ctx context.Context) error {
	ticker := time.NewTicker(relistBlind)
	defer ticker.Stop()
	var next, looked time.Time
	for {
		if !time.Now().Before(next) {
			next = time.Now().Add(o.guardedLook(ctx))
			looked = time.Now()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-o.kicked:
			if !sleep(ctx, max(settleKick, relistGap-time.Since(looked))) {
				return nil
			}
			drain(o.kicked)
			next = time.Now()
		case <-ticker.C:
			if blind := !o.runtime.Healthy(); blind {
				next = time.Now()
			}
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

func drain(c <-chan struct{}) {
	select {
	case <-c:
	default:
	}
}

// kick asks for a list soon.
func (o *overseer) kick() {
	select {
	case o.kicked <- struct{}{}:
	default:
	}
}

// watch wakes workers by the runtime's events. A pod that has no worker is a
// reason to list.
func (o *overseer) watch(ctx context.Context) error {
	err := o.runtime.Watch(ctx, func(uid types.UID) {
		if o.happened != nil {
			o.happened()
		}
		if uid == cri.Every {
			o.pool.WakeAll()
		}
		if uid == cri.Every || !o.pool.Wake(uid) {
			o.kick()
		}
	})
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// guardedLook looks, and looks again a while after a panic. That is no progress: a
// shim whose every look panics is restarted in the end.
func (o *overseer) guardedLook(ctx context.Context) (next time.Duration) {
	err := panics.Contain(logr.FromContextOrDiscard(ctx), "overseer", func() error {
		next = o.look(ctx)
		return nil
	})
	o.progress.look(err)
	if err != nil {
		return relistForeign
	}
	return next
}

// look lists the runtime, hands the workers what they may do, and returns when
// to look again.
func (o *overseer) look(ctx context.Context) time.Duration {
	pods, err := o.list(ctx)
	if err != nil {
		o.asked = time.Time{}
		o.check.offer(runtimeList{})
		o.usable.setRuntime(ctx, podworker.Usable{
			Reason:  v1alpha1.ReasonRuntimeNotReady,
			Message: fmt.Sprintf("the container runtime does not answer: %v", err),
		})
		return relistBlind
	}
	o.progress.step()
	o.pool.SetPresent(identities(pods))
	o.wakeChanged(pods)
	o.reportForeign(ctx, pods)
	usable := podworker.Usable{OK: true, Reason: v1alpha1.ReasonRuntimeReady}
	if foreign := cri.ForeignPods(pods); foreign != "" && !o.allowForeign {
		usable = podworker.Usable{Reason: v1alpha1.ReasonForeignPods, Message: foreign}
	}
	o.usable.setRuntime(ctx, usable)
	o.endStaticOrphans(ctx, pods)
	o.check.offer(runtimeList{pods, true})
	switch {
	case !o.runtime.Healthy():
		return relistBlind
	case !usable.OK:
		return relistForeign
	case o.networkError() != nil:
		return relistBlind
	}
	return relistHealthy
}

// wakeChanged wakes the workers whose pods are not what they were at the last
// list: the safety net for an event that never came.
func (o *overseer) wakeChanged(pods []cri.Pod) {
	now := make(map[types.UID]cri.Pod, len(pods))
	for _, p := range pods {
		now[p.UID] = p
		if before, found := o.pods[p.UID]; !found || p.Changed(before) {
			o.pool.Wake(p.UID)
		}
	}
	for uid := range o.pods {
		if _, found := now[uid]; !found {
			o.pool.Wake(uid)
		}
	}
	o.pods = now
}

// list lists the pods of a runtime that is ready.
func (o *overseer) list(ctx context.Context) ([]cri.Pod, error) {
	pods, err := o.runtime.ListPods(ctx)
	if err != nil {
		return nil, err
	}
	if time.Since(o.asked) < conditionsInterval && o.networkError() == nil {
		return pods, nil
	}
	o.progress.step()
	if err := o.runtime.Ready(ctx); err != nil {
		return nil, err
	}
	o.progress.step()
	if !o.seen {
		if err := o.firstSeen(ctx); err != nil {
			return nil, err
		}
		o.seen = true
		o.progress.step()
	}
	network := o.runtime.NetworkReady(ctx)
	o.mu.Lock()
	o.networkErr = network
	o.mu.Unlock()
	o.asked = time.Now()
	return pods, nil
}

// networkError is why there is no pod network, nil if there is one.
func (o *overseer) networkError() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.networkErr
}

// awaitSync asks for a list once the API's list is complete: only now are orphans
// known.
func (o *overseer) awaitSync(ctx context.Context) error {
	for !o.check.orphans.synced() {
		if !sleep(ctx, syncPoll) {
			return nil
		}
	}
	o.kick()
	return nil
}

// setVersion keeps the runtime's name and version, for the Node.
func (o *overseer) setVersion(v string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.runtimeVersion = v
}

func (o *overseer) version() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.runtimeVersion
}

// identities are our pods on the runtime.
func identities(pods []cri.Pod) []podworker.Identity {
	var ids []podworker.Identity
	for _, p := range pods {
		if p.Ours {
			ids = append(ids, podworker.Identity{UID: p.UID, Namespace: p.Namespace, Name: p.Name})
		}
	}
	return ids
}
