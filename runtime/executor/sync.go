// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/panics"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
	"github.com/managedworkload/managedworkload/runtime/runtimeerror"
)

// syncRun is one sync under way.
type syncRun struct {
	e  *Executor
	in plan.SyncRequest
	// around is what the pod was seen to have last, beside what the sync itself changes.
	around *plan.PodStatus
	// sandboxID is the sandbox containers are created in, and ips its addresses.
	sandboxID string
	ips       []string
	// images are what became of the images of volumes, by volume.
	images map[string]volumeImage
	result syncResult
}

// errEnd ends a sync whose result already says why.
var errEnd = errors.New("the sync has ended")

// SyncPod carries the actions about a pod out: kills first, and only when all
// succeeded removals, the sandbox, and starts.
//
// When ctx ends, because the pod's deletion arrived, pulls and postStart hooks are
// aborted, and no further start or kill is begun. A kill under way runs to its
// end and may be shortened; a call that makes a sandbox or makes or starts a
// container continues too, so that the kill that follows finds its result.
// (kubelet kuberuntime_manager.go:SyncPod, from step 2)
func (e *Executor) SyncPod(ctx context.Context, in plan.SyncRequest) plan.SyncOutcome {
	s := &syncRun{e: e, in: in, around: in.Observed, sandboxID: in.Actions.SandboxID, ips: in.Observed.IPs}
	steps := []func(context.Context) error{
		s.kill, s.reset, s.pruneInitContainers, s.prepare, s.createSandbox, s.startContainers,
	}
	for _, step := range steps {
		err := ctx.Err()
		if err == nil {
			err = step(ctx)
		}
		if err != nil && !errors.Is(err, errEnd) {
			s.result.SyncError = err
		}
		if err != nil {
			break
		}
	}
	return s.result.outcome()
}

// kill kills the pod, or the containers that are not to be kept: at once, but that some wait for
// others. One that fails ends the sync.
func (s *syncRun) kill(ctx context.Context) error {
	a := &s.in.Actions
	if a.CreateSandbox && a.SandboxID != "" {
		s.e.events.Event(s.in.Pod, "", corev1.EventTypeNormal, "SandboxChanged",
			"Pod sandbox changed, it will be killed and re-created.")
	}
	if a.KillPod {
		return s.killPod(ctx)
	}
	if !s.e.differences.KillsAtOnce {
		return s.killInTurn(ctx)
	}
	kills := a.ContainersToKill
	turns, leave := s.e.takeTurns(s.in.Pod.UID, kills)
	defer leave()
	ends := make([]error, len(kills))
	var wg sync.WaitGroup
	for i := range kills {
		wg.Go(func() {
			k := s.e.newKill(s.in.Pod, s.requested(kills[i]))
			k.turns = turns
			_, ends[i] = k.inTurn(context.WithoutCancel(ctx))
		})
	}
	wg.Wait()
	var failed error
	for i, err := range ends {
		if err := s.killed(ctx, kills[i], err); failed == nil {
			failed = err
		}
	}
	return failed
}

// killInTurn kills one container after another, and none after the first that fails.
func (s *syncRun) killInTurn(ctx context.Context) error {
	for _, kill := range s.in.Actions.ContainersToKill {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		err := s.e.KillContainer(context.WithoutCancel(ctx), s.in.Pod, s.requested(kill))
		if err := s.killed(ctx, kill, err); err != nil {
			return err
		}
	}
	return nil
}

func (s *syncRun) killPod(ctx context.Context) error {
	results, err := s.e.KillPod(context.WithoutCancel(ctx), plan.KillRequest{
		Pod: s.in.Pod, Observed: s.in.Observed,
		Trigger: s.in.Actions.Trigger, Message: s.in.Actions.Message, RequestedBy: s.in.Asks(s.in.Actions.Trigger),
	})
	for _, result := range results {
		s.result.add(result)
	}
	if errors.Is(err, ErrInterrupted) {
		return err
	}
	if err != nil {
		return errEnd
	}
	if s.in.Actions.CreateSandbox {
		s.purgeInitContainers(ctx)
	}
	return nil
}

// requested names who asked for the sync, unless the kill says who asked for it.
func (s *syncRun) requested(kill plan.Kill) plan.Kill {
	kill.RequestedBy = cmp.Or(kill.RequestedBy, s.in.Asks(kill.Trigger))
	return kill
}

// killed notes how a kill has ended.
func (s *syncRun) killed(ctx context.Context, kill plan.Kill, err error) error {
	if errors.Is(err, ErrInterrupted) {
		return err
	}
	s.result.add(killResult(kill.Name, err))
	if err != nil {
		return errEnd
	}
	if kill.Removed {
		// The spec no longer names it, so no later sync would look at it.
		if err := s.e.removeContainer(ctx, kill.ID, true); err != nil && !runtimeerror.IsNotFound(err) {
			logr.FromContextOrDiscard(ctx).Error(err, "Failed to remove a container that the template does not name",
				"container", kill.Name)
		}
	}
	return nil
}

// reset removes the containers of a pod that starts over, one after another, killing them before
// without grace where they may run. Their logs are kept.
func (s *syncRun) reset(ctx context.Context) error {
	if s.in.Actions.KillPod || len(s.in.Actions.ContainersToReset) == 0 {
		return nil
	}
	if err := s.checkResetBackoff(); err != nil {
		return err
	}
	resets, atOnce := s.in.Actions.ContainersToReset, s.e.differences.KillsAtOnce
	ends := make([]error, len(resets))
	if atOnce {
		var wg sync.WaitGroup
		for i := range resets {
			wg.Go(func() {
				ends[i] = panics.Contain(logr.FromContextOrDiscard(ctx), "kill before a reset", func() error { return s.killBeforeReset(ctx, resets[i]) })
			})
		}
		wg.Wait()
	}
	for i, reset := range resets {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		result := plan.Result{Action: plan.ActionRemoveContainer, Target: reset.Name}
		err := ends[i]
		if !atOnce {
			err = s.killBeforeReset(ctx, reset)
		}
		if errors.Is(err, ErrInterrupted) {
			return err
		}
		if err != nil {
			result.Err, result.Message = ErrKillContainer, runtimeerror.Text(err)
		} else if err = s.e.removeContainer(context.WithoutCancel(ctx), reset.ID, true); err != nil {
			result.Err, result.Message = ErrRemoveContainer, runtimeerror.Text(err)
		}
		s.result.add(result)
		if err != nil {
			return errEnd
		}
	}
	return nil
}

func (s *syncRun) killBeforeReset(ctx context.Context, reset plan.Reset) error {
	if reset.Kill == nil {
		return nil
	}
	return s.e.KillContainer(context.WithoutCancel(ctx), s.in.Pod, s.requested(*reset.Kill))
}

// startsAny reports whether the sync creates anything.
func (s *syncRun) startsAny() bool {
	a := &s.in.Actions
	return a.CreateSandbox || len(a.EphemeralContainersToStart)+len(a.InitContainersToStart)+len(a.ContainersToStart) > 0
}

// prepare makes directories and volumes ready. Kills do not wait for volumes:
// in the kubelet, which mounts first, a volume that cannot be mounted would keep
// a container running that failed its probe.
func (s *syncRun) prepare(ctx context.Context) error {
	if s.e.prepare == nil || !s.startsAny() {
		return nil
	}
	err := s.prepareAlone(ctx)
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	// The error has the kubelet's words for what cannot be made ready.
	reason := "FailedMount"
	var other interface{ EventReason() string }
	if errors.As(err, &other) {
		reason = other.EventReason()
	}
	s.e.events.Event(s.in.Pod, "", corev1.EventTypeWarning, reason, err.Error())
	return fmt.Errorf("prepare pod %s: %w", podspec.Format(s.in.Pod), err)
}

// createSandbox creates a sandbox if the plan wants one, and learns its
// addresses. A failure while the deletion arrives is none.
func (s *syncRun) createSandbox(ctx context.Context) error {
	a := &s.in.Actions
	if !a.CreateSandbox {
		return nil
	}
	pod := s.in.Pod
	result := plan.Result{Action: plan.ActionCreatePodSandbox, Target: podspec.Format(pod)}
	var id string
	err := seeThrough(ctx, func(ctx context.Context) (err error) {
		id, err = s.e.runtime.RunSandbox(ctx, pod, a.Attempt)
		return err
	})
	if err != nil && ctx.Err() == nil {
		result.Err = ErrCreatePodSandbox
		result.Message = fmt.Sprintf("Failed to create sandbox for pod %q: %s", podspec.Format(pod), runtimeerror.Text(err))
		s.e.events.Event(pod, "", corev1.EventTypeWarning, "FailedCreatePodSandBox",
			"Failed to create pod sandbox: "+runtimeerror.Text(err))
	}
	s.result.add(result)
	if err != nil {
		return errEnd
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.sandboxID = id
	status, err := s.e.runtime.SandboxStatus(ctx, id)
	if err != nil {
		s.e.events.Event(pod, "", corev1.EventTypeWarning, "FailedPodSandBoxStatus",
			"Unable to get pod sandbox status: "+runtimeerror.Text(err))
		return err
	}
	if !pod.Spec.HostNetwork {
		s.ips = sandboxIPs(&status)
	}
	return nil
}

// startContainers starts ephemeral, init and main containers, and before the last
// changes the resources of those that run. An init container
// that fails to start ends the sync; any other is skipped, and so is a sidecar.
func (s *syncRun) startContainers(ctx context.Context) error {
	spec := &s.in.Pod.Spec
	for _, i := range s.in.Actions.EphemeralContainersToStart {
		ephemeral := &spec.EphemeralContainers[i]
		c := (*corev1.Container)(&ephemeral.EphemeralContainerCommon)
		if err := s.start(ctx, c, ephemeral.TargetContainerName); isFinal(err) {
			return err
		}
	}
	for _, i := range s.in.Actions.InitContainersToStart {
		c := &spec.InitContainers[i]
		err := s.start(ctx, c, "")
		if isFinal(err) {
			return err
		}
		if err != nil && !podspec.IsSidecar(c) {
			return errEnd
		}
	}
	s.resize(ctx)
	for _, i := range s.in.Actions.ContainersToStart {
		if err := s.start(ctx, &spec.Containers[i], ""); isFinal(err) {
			return err
		}
	}
	return nil
}

// isFinal reports whether an error ends the whole sync, and not one container's start.
func isFinal(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrInterrupted)
}
