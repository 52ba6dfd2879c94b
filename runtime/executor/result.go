// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"errors"
	"fmt"

	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/text"
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

// maxResultMessage bounds what is reported about one step, in bytes, whatever a
// runtime or a registry answers: it ends up in the status.
const maxResultMessage = 32 << 10

// syncResult collects the outcome of a sync.
type syncResult struct{ plan.SyncOutcome }

// add appends a result and keeps what is derived from results.
func (r *syncResult) add(result plan.Result) {
	result.Message = text.Cut(result.Message, maxResultMessage)
	r.Results = append(r.Results, result)
	if !result.BackoffUntil.IsZero() && (r.BackoffUntil.IsZero() || result.BackoffUntil.Before(r.BackoffUntil)) {
		r.BackoffUntil = result.BackoffUntil
	}
	switch {
	case result.Action == plan.ActionStartContainer:
		r.tried(result)
	case errors.Is(result.Err, ErrResizePodInPlace):
		r.ResizeError = result.Message
	case errors.Is(result.Err, ErrKillContainer), errors.Is(result.Err, ErrKillPodSandbox):
		r.KillError = result.Target + ": " + result.Message
	}
}

func (r *syncResult) tried(result plan.Result) {
	if r.Tried == nil {
		r.Tried = map[string]plan.Reason{}
	}
	var reason plan.Reason
	if result.Err != nil {
		reason = plan.Reason{Reason: result.Err.Error(), Message: result.Message}
	}
	r.Tried[result.Target] = reason
}

// outcome returns what was collected, with all errors joined unless back-offs are
// all that is wrong: the next sync may wait for BackoffUntil then.
func (r *syncResult) outcome() plan.SyncOutcome {
	var errs []error
	onlyBackoff := r.SyncError == nil
	if r.SyncError != nil {
		errs = append(errs, r.SyncError)
	}
	for _, result := range r.Results {
		if result.Err != nil {
			errs = append(errs, resultError(result))
			onlyBackoff = onlyBackoff && errors.Is(result.Err, ErrCrashLoopBackOff)
		}
	}
	if !onlyBackoff {
		r.Err = errors.Join(errs...)
	}
	return r.SyncOutcome
}

func resultError(r plan.Result) error {
	return fmt.Errorf("failed to %q for %q with %w: %q", r.Action, r.Target, r.Err, r.Message)
}
