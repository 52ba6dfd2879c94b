// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/faults/history"
)

const (
	callTimeout = 5 * time.Second
	retryAfter  = 300 * time.Millisecond
	// failFor bounds how long a probe is made to fail.
	failFor = 40 * time.Second
)

// errLost is what the API no longer has, because it was restored from a copy.
var errLost = errors.New("the API does not have this incarnation")

// driver is the user of one workload's name: it creates, changes and deletes it
// again and again, and tries each call until the API server has taken it.
type driver struct {
	kube     client.Client
	requests *requests
	workload string
	dir      string
	dice     *rand.Rand
	count    int
}

// run makes incarnations until stop is closed, and ends the last one.
func (d *driver) run(ctx context.Context, stop <-chan struct{}) error {
	if !pause(ctx, stop, d.between(0, 5*time.Second)) {
		return nil
	}
	for {
		err := d.incarnation(ctx, stop)
		if err != nil && !errors.Is(err, errLost) {
			return err
		}
		select {
		case <-stop:
			return d.awaitGone(ctx)
		default:
		}
	}
}

// incarnation creates the workload, changes it a few times and deletes it.
func (d *driver) incarnation(ctx context.Context, stop <-chan struct{}) error {
	d.count++
	in := newIncarnation(d.dice, d.workload, d.dir, d.count)
	if err := d.create(ctx, in); err != nil {
		return err
	}
	revision := 1
	for range 1 + d.dice.IntN(4) {
		if !pause(ctx, stop, d.between(2*time.Second, 8*time.Second)) {
			break
		}
		kind := history.Change
		switch chosen := d.dice.IntN(10); {
		case chosen < 3 && in.probed != "":
			if err := d.failProbe(ctx, in); err != nil {
				return err
			}
			continue
		case chosen < 6:
			kind = history.Restart
		}
		revision++
		if err := d.change(ctx, in, revision, kind); err != nil {
			return err
		}
	}
	pause(ctx, stop, d.between(time.Second, 6*time.Second))
	grace := in.grace
	if d.dice.IntN(2) == 0 {
		grace = int64(d.dice.IntN(int(in.grace)))
	}
	if err := d.remove(ctx, in.number, &grace); err != nil {
		return err
	}
	return d.awaitGone(ctx)
}

func (d *driver) between(from, to time.Duration) time.Duration {
	return from + time.Duration(d.dice.Int64N(int64(to-from)))
}

// create creates the incarnation. What a restored API still has of an earlier one
// is deleted first.
func (d *driver) create(ctx context.Context, in *incarnation) error {
	return d.until(ctx, func(ctx context.Context) error {
		err := d.kube.Create(ctx, in.object.DeepCopy())
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		there := &v1alpha1.ManagedWorkload{}
		if err := d.kube.Get(ctx, d.key(), there); err != nil {
			return err
		}
		if incarnationOf(there) == in.number {
			return nil // an earlier try, whose answer was lost
		}
		return errors.Join(err, d.removeObject(ctx, there))
	})
}

// change writes a revision of the template.
func (d *driver) change(ctx context.Context, in *incarnation, revision int, kind history.RequestKind) error {
	request := d.requests.begin(history.Request{
		Kind: kind, Workload: d.workload, Incarnation: in.number, Revision: revision,
		Grace: time.Duration(in.grace) * time.Second,
	})
	err := d.until(ctx, func(ctx context.Context) error {
		mw := &v1alpha1.ManagedWorkload{}
		if err := d.kube.Get(ctx, d.key(), mw); err != nil {
			return lostIf(apierrors.IsNotFound(err), err)
		}
		if incarnationOf(mw) != in.number || mw.DeletionTimestamp != nil {
			return errLost
		}
		change(mw, revision, kind)
		return d.kube.Update(ctx, mw)
	})
	if err == nil {
		d.requests.acked(request)
	}
	return err
}

// failProbe has the liveness probe fail until the container has ended.
func (d *driver) failProbe(ctx context.Context, in *incarnation) error {
	before, err := d.journals(in.probed)
	if err != nil {
		return err
	}
	if len(before) == 0 {
		return nil // it never ran
	}
	request := d.requests.begin(history.Request{
		Kind: history.FailProbe, Workload: d.workload, Container: in.probed, Incarnation: in.number,
		Grace: time.Duration(in.grace) * time.Second,
	})
	if err := os.WriteFile(in.failFile, nil, 0o644); err != nil {
		return err
	}
	d.requests.acked(request)
	end := time.After(failFor)
	for {
		now, err := d.journals(in.probed)
		over := err != nil || len(now) > len(before)
		select {
		case <-ctx.Done():
			over, err = true, ctx.Err()
		case <-end:
			over = true
		case <-time.After(heartbeat):
		}
		if over {
			err = errors.Join(err, os.Remove(in.failFile))
			d.requests.until(request)
			return err
		}
	}
}

func (d *driver) journals(container string) ([]string, error) {
	return filepath.Glob(filepath.Join(d.dir, container+".*[0-9a-f]"))
}

// remove deletes an incarnation with a grace period.
func (d *driver) remove(ctx context.Context, incarnation int, grace *int64) error {
	request := d.requests.begin(history.Request{
		Kind: history.Delete, Workload: d.workload, Incarnation: incarnation,
		Grace: time.Duration(*grace) * time.Second,
	})
	err := d.until(ctx, func(ctx context.Context) error {
		mw := &v1alpha1.ManagedWorkload{}
		if err := d.kube.Get(ctx, d.key(), mw); err != nil {
			return lostIf(apierrors.IsNotFound(err), err)
		}
		if incarnationOf(mw) != incarnation {
			return errLost
		}
		if mw.DeletionTimestamp != nil {
			return nil
		}
		if mw.Annotations[v1alpha1.AnnotationDeletionGracePeriodSeconds] == "" {
			mw.Annotations[v1alpha1.AnnotationDeletionGracePeriodSeconds] = strconv.FormatInt(*grace, 10)
			if err := d.kube.Update(ctx, mw); err != nil {
				return err
			}
		}
		return d.kube.Delete(ctx, mw)
	})
	if err == nil {
		d.requests.acked(request)
	}
	return err
}

// removeObject asks for the end of what is there, whichever incarnation it is.
func (d *driver) removeObject(ctx context.Context, mw *v1alpha1.ManagedWorkload) error {
	if mw.DeletionTimestamp != nil {
		return nil
	}
	grace := *mw.Spec.Template.Spec.TerminationGracePeriodSeconds
	return d.remove(ctx, incarnationOf(mw), &grace)
}

// awaitGone waits until the API has no object of the name. One that a restored API
// has again is deleted again.
func (d *driver) awaitGone(ctx context.Context) error {
	gone := errors.New("not gone")
	return d.until(ctx, func(ctx context.Context) error {
		mw := &v1alpha1.ManagedWorkload{}
		err := d.kube.Get(ctx, d.key(), mw)
		if err != nil {
			return client.IgnoreNotFound(err)
		}
		return errors.Join(gone, d.removeObject(ctx, mw))
	})
}

func (d *driver) key() client.ObjectKey {
	return client.ObjectKey{Namespace: namespace, Name: d.workload}
}

// until tries again until it works or is lost.
func (d *driver) until(ctx context.Context, do func(context.Context) error) error {
	for {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		err := do(call)
		cancel()
		if err == nil || errors.Is(err, errLost) && !errors.Is(err, context.Canceled) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(retryAfter):
		}
	}
}

func lostIf(lost bool, err error) error {
	if lost {
		return errLost
	}
	return err
}

func incarnationOf(mw *v1alpha1.ManagedWorkload) int {
	n, err := strconv.Atoi(mw.Annotations[annotationIncarnation])
	if err != nil {
		return 0
	}
	return n
}

// pause reports whether the time passed before the campaign's end.
func pause(ctx context.Context, stop <-chan struct{}, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-stop:
		return false
	case <-time.After(d):
		return true
	}
}
