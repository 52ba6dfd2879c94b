// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/clock"
	"github.com/managedworkload/managedworkload/runtime/panics"
)

// The lease, as a kubelet's. (kubelet kubelet.go:nodeLeaseRenewIntervalFraction)
const (
	leaseDurationSeconds = 40
	leaseRenewInterval   = 10 * time.Second
)

// lease is renewed as long as its holder is alive.
type lease struct {
	api             client.Client
	clock           *clock.Clock
	namespace, name string
	holder          string
	// ownShim: it is that by which the manager knows the shim.
	ownShim bool

	// alone: there is no API server.
	alone bool

	mu sync.Mutex
	// last is the lease as it was written last.
	last *coordinationv1.Lease
	// held is the annotation about orphans that are kept, "" for none; nil leaves the
	// one that is there.
	held *string

	// pressure is the annotation about what the node is short of, "" for none; nil leaves the
	// one that is there.
	pressure atomic.Pointer[string]
	// mirrors is the annotation about the mirrors of static workloads, as pressure.
	mirrors atomic.Pointer[string]
	// shutdown is until when the node's workloads end, the zero time while it does not shut
	// down.
	shutdown atomic.Pointer[time.Time]
	// kicked has the lease renewed at once.
	kicked chan struct{}
}

// shimLease is the lease by which the manager knows that this shim works.
func shimLease(api client.Client, c *clock.Clock, o Options) *lease {
	return &lease{
		api: api, clock: c, namespace: o.Namespace, name: v1alpha1.LeaseNamePrefix + o.NodeName, holder: o.NodeName,
		ownShim: true, kicked: make(chan struct{}, 1),
	}
}

// nodeLease is the lease of a node that has no kubelet.
func nodeLease(api client.Client, c *clock.Clock, o Options) *lease {
	return &lease{api: api, clock: c, namespace: corev1.NamespaceNodeLease, name: o.NodeName, holder: o.NodeName}
}

// reportHeld writes about orphans that are kept into the lease, where a person finds it
// and confirms; "" says that there are none. It stays with each renewal.
func (l *lease) reportHeld(ctx context.Context, message string) error {
	l.mu.Lock()
	l.held = &message
	l.mu.Unlock()
	return l.renew(ctx)
}

// confirmation is the token by which a person confirms that orphans may be killed, ""
// if there is none.
func (l *lease) confirmation(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	found := &coordinationv1.Lease{}
	if err := l.api.Get(ctx, client.ObjectKey{Namespace: l.namespace, Name: l.name}, found); err != nil {
		return ""
	}
	return found.Annotations[v1alpha1.AnnotationConfirmOrphans]
}

// renew writes the lease. Without an API server there is none.
func (l *lease) renew(ctx context.Context) error {
	if l.alone {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	if l.last != nil {
		err := l.update(ctx, l.last.DeepCopy())
		if err == nil || !(apierrors.IsConflict(err) || apierrors.IsNotFound(err)) {
			return err
		}
		l.last = nil
	}
	found := &coordinationv1.Lease{}
	err := l.api.Get(ctx, client.ObjectKey{Namespace: l.namespace, Name: l.name}, found)
	switch {
	case apierrors.IsNotFound(err):
		return l.create(ctx)
	case err != nil:
		return fmt.Errorf("get lease %s/%s: %w", l.namespace, l.name, err)
	}
	return l.update(ctx, found)
}

func (l *lease) create(ctx context.Context) error {
	fresh := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: l.name}}
	l.fill(fresh)
	if err := l.api.Create(ctx, fresh); err != nil {
		return fmt.Errorf("create lease %s/%s: %w", l.namespace, l.name, err)
	}
	l.last = fresh
	return nil
}

func (l *lease) update(ctx context.Context, found *coordinationv1.Lease) error {
	l.fill(found)
	if err := l.api.Update(ctx, found); err != nil {
		return fmt.Errorf("renew lease %s/%s: %w", l.namespace, l.name, err)
	}
	l.last = found
	return nil
}

func (l *lease) fill(found *coordinationv1.Lease) {
	found.Spec.HolderIdentity = &l.holder
	found.Spec.LeaseDurationSeconds = ptr.To[int32](leaseDurationSeconds)
	found.Spec.RenewTime = &metav1.MicroTime{Time: l.clock.Now()}
	annotate(found, v1alpha1.AnnotationOrphansHeld, l.held)
	annotate(found, v1alpha1.AnnotationNodePressure, l.pressure.Load())
	annotate(found, v1alpha1.AnnotationStaticMirrors, l.mirrors.Load())
	l.markShutdown(found)
}

// annotate sets an annotation, removes one that is empty, and leaves the one that is there where
// there is nothing to say.
func annotate(found *coordinationv1.Lease, name string, text *string) {
	switch {
	case text == nil:
	case *text == "":
		delete(found.Annotations, name)
	default:
		metav1.SetMetaDataAnnotation(&found.ObjectMeta, name, *text)
	}
}

// setPressure has the lease say at once what the node is short of: a Lease has no conditions. It
// waits for nothing.
func (l *lease) setPressure(conditions []corev1.NodeConditionType) {
	names := make([]string, 0, len(conditions))
	for _, c := range conditions {
		names = append(names, string(c))
	}
	l.pressure.Store(new(strings.Join(names, ",")))
	kick(l.kicked)
}

// setMirrors has the lease ask the manager for mirrors of static workloads, at once where that is
// news; "" asks for nothing.
func (l *lease) setMirrors(report string) {
	if before := l.mirrors.Swap(&report); before == nil && report == "" || before != nil && *before == report {
		return
	}
	kick(l.kicked)
}

// setShutdown has the lease say at once until when the workloads of a node end that shuts down;
// the zero time says that it does not.
func (l *lease) setShutdown(until time.Time) {
	l.shutdown.Store(&until)
	kick(l.kicked)
}

// markShutdown writes about a shutdown. What an earlier process wrote is over.
func (l *lease) markShutdown(found *coordinationv1.Lease) {
	if !l.ownShim {
		return
	}
	if until := l.shutdown.Load(); until != nil && !until.IsZero() {
		// The machine may take longer than the workloads.
		end := found.Spec.RenewTime.Add(leaseDurationSeconds * time.Second)
		if until.After(end) {
			end = *until
		}
		metav1.SetMetaDataAnnotation(&found.ObjectMeta, v1alpha1.AnnotationShutdownUntil, end.UTC().Format(time.RFC3339))
		return
	}
	delete(found.Annotations, v1alpha1.AnnotationShutdownUntil)
}

// keep renews until the context is done.
func (l *lease) keep(ctx context.Context) error {
	log := logr.FromContextOrDiscard(ctx)
	failing := false
	everyOr(ctx, leaseRenewInterval, l.kicked, func() {
		err := panics.Contain(log, "lease", func() error { return l.renew(ctx) })
		if err != nil && !failing && ctx.Err() == nil {
			log.Info("Failed to renew the Lease; retrying", "lease", l.namespace+"/"+l.name, "reason", err.Error())
		}
		failing = err != nil
	})
	return nil
}

// keepTrying does something at once and then in intervals, until the context is done. An
// error is logged when it is another one than the last time.
func keepTrying(ctx context.Context, interval time.Duration, what string, do func(context.Context) error) {
	keepTryingOr(ctx, interval, nil, what, do)
}

// keepTryingOr does it also when it is kicked.
func keepTryingOr(ctx context.Context, interval time.Duration, kicked <-chan struct{}, what string, do func(context.Context) error) {
	log := logr.FromContextOrDiscard(ctx)
	var last string
	everyOr(ctx, interval, kicked, func() {
		err := panics.Contain(log, what, func() error { return do(ctx) })
		switch {
		case ctx.Err() != nil:
		case err == nil:
			last = ""
		case err.Error() != last:
			last = err.Error()
			log.Info("Failed to "+what+"; retrying", "reason", last)
		}
	})
}

// every calls f at once and then in intervals, until the context is done.
func every(ctx context.Context, interval time.Duration, f func()) {
	everyOr(ctx, interval, nil, f)
}

// everyOr calls f also when it is kicked.
func everyOr(ctx context.Context, interval time.Duration, kicked <-chan struct{}, f func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		f()
		select {
		case <-ctx.Done():
			return
		case <-kicked:
		case <-ticker.C:
		}
	}
}
