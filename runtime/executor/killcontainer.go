// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/runtimeerror"
)

// KillContainer kills one container: record, event Killing, preStop hook,
// StopContainer with what is left of the grace period and never less than 2 s.
// A container that the runtime does not know counts as killed; any other error
// of the runtime is returned.
//
// When ctx ends, a hook is cancelled, ctx's error is returned, and the record
// stays open for Resume. A StopContainer under way goes on.
// (kubelet kuberuntime_container.go:killContainer)
func (e *Executor) KillContainer(ctx context.Context, pod *corev1.Pod, id, name string, opts KillOptions) error {
	return e.kill(ctx, pod, id, name, opts, nil)
}

// kill is KillContainer for a container that may have to wait for its turn.
func (e *Executor) kill(ctx context.Context, pod *corev1.Pod, id, name string, opts KillOptions, turns *turns) error {
	t, err := e.resolveTarget(ctx, pod, id, name, opts)
	if opts.FromRecord && runtimeerror.IsNotFound(err) {
		return nil // gone, and its record with it
	}
	if err != nil {
		return err
	}
	k := newKill(e, t, opts, turns)
	if err := e.enter(k); err != nil {
		return err
	}
	defer e.leave(k)
	if opts.Resume == nil {
		e.containerEvent(pod, t.container.Name, id, corev1.EventTypeNormal, "Killing", killingMessage(t, opts))
	}
	return k.run(ctx)
}

func newKill(e *Executor, t target, opts KillOptions, turns *turns) *kill {
	k := &kill{e: e, target: t, opts: opts, turns: turns, shortened: make(chan struct{}, 1)}
	if opts.Resume != nil {
		k.resume(opts.Resume)
		if opts.Override != nil && k.setLimit(time.Now(), opts.Override.Seconds) {
			k.applyLimit()
		}
		return k
	}
	grace := graceOf(t, opts)
	k.rec, k.left = newRecord(t, opts, grace), grace.Seconds
	return k
}

// run takes the kill through its phases.
func (k *kill) run(ctx context.Context) error {
	log := logr.FromContextOrDiscard(ctx).WithValues("container", k.container.Name, "trigger", k.opts.Trigger)
	log.Info("Killing container", "graceSeconds", k.left)
	if err := k.runPreStop(ctx); err != nil {
		return fmt.Errorf("preStop hook of container %q: %w", k.container.Name, err)
	}
	if err := k.waitForTurn(ctx); err != nil {
		return fmt.Errorf("wait for the turn of container %q: %w", k.container.Name, err)
	}
	err := k.stop(ctx)
	if errors.Is(err, ErrInterrupted) {
		return err
	}
	if err := k.finish(ctx, err); err != nil {
		return err
	}
	k.turns.ended(k.container.Name)
	return nil
}

// waitForTurn waits for the containers that end before this one, no longer than
// the grace period that is left. (kubelet
// kuberuntime_termination_order.go:waitForTurn)
func (k *kill) waitForTurn(ctx context.Context) error {
	if k.left <= 0 || !k.turns.mustWait(k.container.Name) {
		return nil
	}
	waitCtx, end := k.begin(ctx, v1alpha1.KillPhaseWaitingForTurn)
	k.turns.wait(waitCtx, k.container.Name)
	err := k.phaseError(ctx, waitCtx)
	end()
	return err
}
