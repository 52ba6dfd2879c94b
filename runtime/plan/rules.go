// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// candidate is what the rules look at: one running container.
type candidate struct {
	container *corev1.Container
	// probed is the definition by which it is probed (ProbedPod).
	probed      *corev1.Container
	status      *ContainerStatus
	probes      ProbeResults
	definitions *Definitions
	// asked is what requests ask of it.
	asked Asked
	// current and desired are its resources; the same when one is not known.
	current, desired Resources
}

// killRule is one reason to kill a running container.
type killRule struct {
	trigger v1alpha1.KillTrigger
	applies func(candidate) bool
	// message is the kubelet's, %s is the container's name.
	message string
	// restarts whatever the restart policy.
	restarts bool
	// stays: nothing is started in its place.
	stays bool
	// plain: the message does not say that the container will be restarted.
	plain bool
	// onceStarted: not looked at before the container has started.
	onceStarted bool
}

func (r *killRule) kill(f candidate) Kill {
	return Kill{Trigger: r.trigger, Message: fmt.Sprintf(r.message, f.container.Name)}
}

// mainRules are the reasons to kill a running main container, the first that
// applies wins.
var mainRules = []killRule{
	{
		trigger: v1alpha1.TriggerStopRequested,
		applies: stopAsked,
		message: "Container %s stop requested",
		stays:   true,
	},
	{
		trigger:  v1alpha1.TriggerDefinitionChanged,
		applies:  definitionChanged,
		message:  "Container %s definition changed",
		restarts: true,
	},
	{
		trigger:  v1alpha1.TriggerRestartRequested,
		applies:  restartRequested,
		message:  "Container %s restart requested",
		restarts: true,
	},
	{
		trigger: v1alpha1.TriggerLivenessProbe,
		applies: livenessFailed,
		message: "Container %s failed liveness probe",
	},
	{
		trigger: v1alpha1.TriggerStartupProbe,
		applies: startupFailed,
		message: "Container %s failed startup probe",
	},
	{
		trigger:  v1alpha1.TriggerResizeRequired,
		applies:  resizeRequired,
		message:  "Container %s resize requires restart",
		restarts: true,
		plain:    true,
	},
}

// sidecarRules are the reasons to kill a running sidecar, the first that applies
// wins. Sidecars always restart.
var sidecarRules = []killRule{
	{
		trigger: v1alpha1.TriggerStopRequested,
		applies: stopAsked,
		message: "Init container %s stop requested",
		stays:   true,
	},
	{
		trigger: v1alpha1.TriggerRestartRequested,
		applies: func(f candidate) bool { return f.asked.Force && restartAsked(f) },
		message: "Init container %s restart requested",
	},
	{
		trigger: v1alpha1.TriggerStartupProbe,
		applies: func(f candidate) bool { return f.probed.StartupProbe != nil && startupFailed(f) },
		message: "Init container %s failed startup probe",
	},
	{
		trigger:     v1alpha1.TriggerDefinitionChanged,
		applies:     definitionChanged,
		message:     "Init container %s definition changed",
		onceStarted: true,
	},
	{
		trigger:     v1alpha1.TriggerRestartRequested,
		applies:     restartRequested,
		message:     "Init container %s restart requested",
		onceStarted: true,
	},
	{
		trigger:     v1alpha1.TriggerLivenessProbe,
		applies:     func(f candidate) bool { return f.probed.LivenessProbe != nil && livenessFailed(f) },
		message:     "Init container %s failed liveness probe",
		onceStarted: true,
	},
	{
		trigger:     v1alpha1.TriggerResizeRequired,
		applies:     func(f candidate) bool { return sidecarMayResize(f) && resizeRequired(f) },
		message:     "Container %s resize requires restart",
		onceStarted: true,
	},
}

// initRules is the only reason to kill a running init container that is to end.
var initRules = []killRule{{
	trigger: v1alpha1.TriggerResizeRequired,
	applies: resizeRequired,
	message: "Container %s resize requires restart",
}}

// ruleFor returns the rule that kills a running container, nil if none does. Where a
// deliberate one waits for an image, the others count.
func (p *planner) ruleFor(rules []killRule, f candidate, started bool) *killRule {
	waits := false
	for i := range rules {
		r := &rules[i]
		switch {
		case !started && r.onceStarted, waits && deliberate(r.trigger), !r.applies(f):
		case deliberate(r.trigger) && p.awaits(f.container):
			waits = true
			p.actions.Kept = append(p.actions.Kept, f.container.Name)
		default:
			return r
		}
	}
	return nil
}

func definitionChanged(f candidate) bool { return DefinitionChanged(f.definitions, f.status) }

func restartRequested(f candidate) bool {
	return RestartRequested(f.definitions, f.status) || restartAsked(f)
}

// livenessFailed is the one place that decides about a liveness verdict.
func livenessFailed(f candidate) bool { return f.probes.Liveness == ProbeFailure }

// startupFailed is the one place that decides about a startup verdict.
func startupFailed(f candidate) bool { return f.probes.Startup == ProbeFailure }

// sidecarMayResize is whether a sidecar that has started may be resized: not
// before the first verdict of its liveness probe, if it has one.
func sidecarMayResize(f candidate) bool {
	return f.probed.LivenessProbe == nil || f.probes.Liveness != ""
}

// sidecarStarted is whether a running sidecar has started: its startup probe
// has succeeded, if it has one.
func sidecarStarted(f candidate) bool {
	return f.probed.StartupProbe == nil || f.probes.Startup == ProbeSuccess
}
