// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/runtime/hostfs"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/runtimeerror"
)

// startError is why a container did not start: a brief reason and what a person
// reads about it.
type startError struct {
	reason  error
	message string
}

func (e *startError) Error() string { return fmt.Sprintf("%v: %s", e.reason, e.message) }

func (e *startError) Unwrap() error { return e.reason }

// invalidConfig is implemented by errors of CreateContainer that say that the
// container could not be described to the runtime, as CreateContainerConfigError
// does.
type invalidConfig interface{ InvalidConfig() bool }

// start starts one container, unless it has to wait, and adds the result.
// target names the container that an ephemeral one joins.
func (s *syncRun) start(ctx context.Context, c *corev1.Container, target string) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	result := plan.Result{Action: plan.ActionStartContainer, Target: c.Name}
	if wait := s.checkBackoff(c); wait != nil {
		return s.putOff(c.Name, wait)
	}
	err := s.startContainer(ctx, c, target)
	var failure *startError
	switch {
	case err == nil:
	case errors.As(err, &failure):
		result.Err, result.Message = failure.reason, failure.message
	default:
		return err
	}
	s.result.add(result)
	return err
}

// checkBackoff reports whether a container has to wait before it is started
// again, and keeps its entry.
func (s *syncRun) checkBackoff(c *corev1.Container) *plan.Wait {
	key, next, wait := plan.CheckBackoff(&s.in, c, s.e.differences, s.e.moment())
	s.keepBackoff(key, next)
	return wait
}

// keepBackoff keeps an entry of back-off; nil is none.
func (s *syncRun) keepBackoff(key string, next *plan.Backoff) {
	if next == nil {
		delete(s.in.Backoff, key)
	} else {
		s.in.Backoff[key] = next
	}
}

// putOff says that a container waits for its restart.
func (s *syncRun) putOff(name string, wait *plan.Wait) error {
	s.e.containerEvent(s.in.Pod, name, "", corev1.EventTypeWarning, "BackOff", wait.EventMessage)
	s.result.add(plan.Result{
		Action: plan.ActionStartContainer, Target: name,
		Err: ErrCrashLoopBackOff, Message: wait.Message, BackoffUntil: wait.Until,
	})
	return ErrCrashLoopBackOff
}

// checkResetBackoff ends the sync while a container that asked for a reset waits for its restart.
func (s *syncRun) checkResetBackoff() error {
	next, waits := plan.CheckResetBackoff(&s.in, s.e.differences, s.e.moment())
	for _, wait := range waits {
		_ = s.putOff(wait.Name, wait.Wait) // the result has it
	}
	if len(waits) > 0 {
		return errEnd
	}
	for key, entry := range next {
		s.keepBackoff(key, entry)
	}
	return nil
}

// startContainer pulls the image, creates and starts the container and runs its
// postStart hook. It returns a startError, or ctx's error when ctx has ended.
// (kubelet kuberuntime_container.go:startContainer)
func (s *syncRun) startContainer(ctx context.Context, c *corev1.Container, target string) error {
	pod := s.in.Pod
	mounted, err := s.volumeImages(ctx, c)
	if err != nil {
		return err
	}
	imageRef, err := s.e.images.ensure(ctx, pod, c.Name, plan.ImageKeyOf(c), s.in.Actions.ImageOf(c.Name))
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.failed(c, "", reasonOf(err))
		return err
	}
	if target != "" && s.in.Observed.Current(target) == nil {
		message := fmt.Sprintf("unable to find target container %v", target)
		s.failed(c, "", message)
		return &startError{ErrCreateContainerConfig, message}
	}
	id, err := s.create(ctx, c, imageRef, mounted)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := s.checkStopSignal(ctx, c, id); err != nil {
		return err
	}
	if c.Lifecycle != nil && c.Lifecycle.PostStart != nil {
		defer s.e.startOf(pod.UID, id)()
	}
	err = seeThrough(ctx, func(ctx context.Context) error { return s.e.runtime.StartContainer(ctx, id) })
	if err != nil {
		return s.runtimeFailure(ctx, c, id, ErrRunContainer, err)
	}
	s.e.containerEvent(pod, c.Name, id, corev1.EventTypeNormal, "Started", "Container started")
	return s.postStart(ctx, c, id)
}

// create creates the container. mounted is what the runtime calls the images of volumes.
func (s *syncRun) create(ctx context.Context, c *corev1.Container, imageRef string, mounted map[string]string) (string, error) {
	options := plan.CreateOptions{
		SandboxID: s.sandboxID, SandboxAttempt: s.in.Actions.Attempt,
		Attempt: s.restartCount(ctx, c), ImageRef: imageRef, VolumeImages: mounted, PodIPs: s.ips,
	}
	var id string
	err := seeThrough(ctx, func(ctx context.Context) (err error) {
		id, err = s.e.runtime.CreateContainer(ctx, s.in.Pod, c, options)
		return err
	})
	if err != nil {
		reason := ErrCreateContainer
		var config invalidConfig
		if errors.As(err, &config) && config.InvalidConfig() {
			reason = ErrCreateContainerConfig
		}
		return "", s.runtimeFailure(ctx, c, id, reason, err)
	}
	s.e.containerEvent(s.in.Pod, c.Name, id, corev1.EventTypeNormal, "Created", "Container created")
	return id, nil
}

// startPatience is how long a deletion, or the end of this process, waits for a
// start that the runtime has begun.
const startPatience = 30 * time.Second

// seeThrough makes a call by which the runtime makes or starts something, unless
// ctx has ended. When ctx ends meanwhile the call continues for some time: one that
// is cut off may still complete, or be undone, beside a kill that
// sees nothing of either. That time is bounded because a network plugin or a shim
// of the runtime may hang.
func seeThrough(ctx context.Context, call func(context.Context) error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	callCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(startPatience)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-callCtx.Done():
		}
	})
	defer stop()
	return call(callCtx)
}

// startOf notes that a container with a postStart hook is being started, until ended is called.
func (e *Executor) startOf(podUID types.UID, id string) (ended func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.starting[podUID] == nil {
		e.starting[podUID] = map[string]bool{}
	}
	e.starting[podUID][id] = true
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.starting[podUID], id)
		if len(e.starting[podUID]) == 0 {
			delete(e.starting, podUID)
		}
	}
}

// Starting has the IDs of a pod's containers whose start has not ended because their postStart
// hook runs, or is about to.
func (e *Executor) Starting(podUID types.UID) map[string]bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.starting[podUID])
}

// postStart runs the postStart hook; the container counts as started after it.
// If it fails the container is killed. A hook that is cut off by the pod's
// deletion has not failed: the deletion kills the container.
func (s *syncRun) postStart(ctx context.Context, c *corev1.Container, id string) error {
	if c.Lifecycle == nil || c.Lifecycle.PostStart == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	message, err := s.e.hooks.Run(ctx, id, s.in.Pod, c, c.Lifecycle.PostStart)
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	log := logr.FromContextOrDiscard(ctx).WithValues("container", c.Name)
	log.Info("PostStart hook failed") // without the error, which may hold what the container wrote
	s.e.containerEvent(s.in.Pod, c.Name, id, corev1.EventTypeWarning, "FailedPostStartHook", "PostStartHook failed")
	kill := plan.PostStartKill(s.in.Pod, c.Name, id, s.in.RequestedBy, s.e.differences)
	err = s.e.KillContainer(context.WithoutCancel(ctx), s.in.Pod, kill)
	if errors.Is(err, ErrInterrupted) {
		return err
	}
	if err != nil {
		log.Error(err, "Failed to kill container whose postStart hook failed")
	}
	return &startError{ErrPostStartHook, message}
}

// runtimeFailure is the failure of a runtime call, with its event; ctx's error
// if that has ended.
func (s *syncRun) runtimeFailure(ctx context.Context, c *corev1.Container, id string, reason, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	message := runtimeerror.Message(err)
	s.failed(c, id, message)
	return &startError{reason, message}
}

func (s *syncRun) failed(c *corev1.Container, id, message string) {
	s.e.containerEvent(s.in.Pod, c.Name, id, corev1.EventTypeWarning, "Failed", "Error: "+message)
}

// reasonOf is the brief reason of a start error.
func reasonOf(err error) string {
	if failure, ok := errors.AsType[*startError](err); ok {
		return failure.reason.Error()
	}
	return err.Error()
}

// restartCount is the newest instance's + 1, also over a new sandbox; without
// one the highest number among the log files + 1.
func (s *syncRun) restartCount(ctx context.Context, c *corev1.Container) int {
	if newest := s.in.Observed.Current(c.Name); newest != nil {
		return newest.RestartCount + 1
	}
	if s.e.logDir == nil {
		return 0
	}
	dir := filepath.Join(s.e.logDir(s.in.Pod), c.Name)
	count, err := hostfs.Ask(ctx, s.e.disk, dir, func() (int, error) { return restartCountOfLogs(dir) }, func(int) {})
	if err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "Cannot take the restart count from the log directory", "container", c.Name)
		return 0
	}
	return count
}

var logFileName = regexp.MustCompile(`^(\d+)\.log(\..*)?`)

// restartCountOfLogs returns the highest number among the log files of a
// container + 1, 0 if there is none. (kubelet
// kuberuntime_container.go:calcRestartCountByLogDir)
func restartCountOfLogs(dir string) (int, error) {
	files, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	count := 0
	for _, file := range files {
		matches := logFileName.FindStringSubmatch(file.Name())
		if file.IsDir() || matches == nil {
			continue
		}
		if n, err := strconv.Atoi(matches[1]); err == nil {
			count = max(count, n+1)
		}
	}
	return count, nil
}
