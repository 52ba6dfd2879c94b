// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"errors"
	"fmt"
	"time"
)

// Action is a step of a sync that has a result.
type Action string

// The actions, in the kubelet's words. (kubelet container/sync_result.go)
const (
	ActionStartContainer   Action = "StartContainer"
	ActionKillContainer    Action = "KillContainer"
	ActionRemoveContainer  Action = "RemoveContainer"
	ActionCreatePodSandbox Action = "CreatePodSandbox"
	ActionKillPodSandbox   Action = "KillPodSandbox"
	ActionResizePodInPlace Action = "ResizePodInPlace"
)

// The brief errors of results; their texts are the waiting reasons that people
// know from Pods. (kubelet container/sync_result.go, images/types.go,
// kuberuntime/kuberuntime_container.go)
var (
	ErrCrashLoopBackOff      = errors.New("CrashLoopBackOff")
	ErrRunContainer          = errors.New("RunContainerError")
	ErrKillContainer         = errors.New("KillContainerError")
	ErrRemoveContainer       = errors.New("RemoveContainerError")
	ErrCreatePodSandbox      = errors.New("CreatePodSandboxError")
	ErrKillPodSandbox        = errors.New("KillPodSandboxError")
	ErrCreateContainerConfig = errors.New("CreateContainerConfigError")
	ErrCreateContainer       = errors.New("CreateContainerError")
	ErrResizePodInPlace      = errors.New("ResizePodInPlaceError")
	ErrPostStartHook         = errors.New("PostStartHookError")

	ErrImagePull            = errors.New("ErrImagePull")
	ErrImagePullBackOff     = errors.New("ImagePullBackOff")
	ErrImageInspect         = errors.New("ImageInspectError")
	ErrImageNeverPull       = errors.New("ErrImageNeverPull")
	ErrInvalidImageName     = errors.New("InvalidImageName")
	ErrRegistryUnavailable  = errors.New("RegistryUnavailable")
	ErrSignatureUnvalidated = errors.New("SignatureValidationFailed")
)

// ErrInterrupted is returned by a kill that Interrupt has cut; its record stays
// open and Resume finishes it.
var ErrInterrupted = errors.New("the kill was interrupted")

// Result is what became of one step.
type Result struct {
	Action Action
	// Target is the container's name; for sandboxes the pod.
	Target string
	// Err is one of the brief errors above, nil on success.
	Err error
	// Message is what a person reads about Err.
	Message string
	// BackoffUntil is when a container in CrashLoopBackOff is started again.
	BackoffUntil time.Time
}

// Reason is why a container waits: reason and message of its last attempt to
// start.
type Reason struct {
	Reason, Message string
}

// SyncResult is what became of a sync.
type SyncResult struct {
	// Results of the steps, in their order.
	Results []Result
	// Err is an error that belongs to no step.
	Err error
	// MinBackoffExpiration is the earliest end of a back-off; zero if there is
	// none.
	MinBackoffExpiration time.Time
	// Waiting holds, for each container whose start failed, why; a container
	// whose start succeeded is in Started and waits no more.
	Waiting map[string]Reason
	Started []string
}

// Error joins all errors of a sync, nil if there is none.
func (r *SyncResult) Error() error {
	var errs []error
	if r.Err != nil {
		errs = append(errs, r.Err)
	}
	for _, result := range r.Results {
		if result.Err != nil {
			errs = append(errs, result.error())
		}
	}
	return errors.Join(errs...)
}

// OnlyBackoff tells whether back-offs are all that is wrong, so that the next
// sync may wait for MinBackoffExpiration.
func (r *SyncResult) OnlyBackoff() bool {
	found := false
	for _, result := range r.Results {
		switch {
		case result.Err == nil:
		case errors.Is(result.Err, ErrCrashLoopBackOff):
			found = true
		default:
			return false
		}
	}
	return found && r.Err == nil
}

func (r Result) error() error {
	return fmt.Errorf("failed to %q for %q with %w: %q", r.Action, r.Target, r.Err, r.Message)
}

// add appends a result and keeps what is derived from results.
func (r *SyncResult) add(result Result) {
	r.Results = append(r.Results, result)
	if !result.BackoffUntil.IsZero() &&
		(r.MinBackoffExpiration.IsZero() || result.BackoffUntil.Before(r.MinBackoffExpiration)) {
		r.MinBackoffExpiration = result.BackoffUntil
	}
	if result.Action != ActionStartContainer {
		return
	}
	if result.Err == nil {
		r.Started = append(r.Started, result.Target)
		return
	}
	if r.Waiting == nil {
		r.Waiting = map[string]Reason{}
	}
	r.Waiting[result.Target] = Reason{Reason: result.Err.Error(), Message: result.Message}
}
