// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KillTrigger is what made the shim kill a container.
//
// +kubebuilder:validation:Enum=PostStartHookFailed;SandboxChanged;PodCgroupMissing;UnknownState;LivenessProbe;StartupProbe;DefinitionChanged;WorkloadFinished;Termination;GarbageCollection;RestartAllContainers;RestartRequested;ResizeRequired;ContainerRemoved;Orphan;Evicted;NodePressure;NodeShutdown;StopRequested;ProcessesLeft
type KillTrigger string

// The triggers: the kubelet's callers of killContainer and what came since.
const (
	// TriggerPostStartHookFailed: the postStart hook of the container failed.
	TriggerPostStartHookFailed KillTrigger = "PostStartHookFailed"
	// TriggerSandboxChanged: the pod sandbox must be created again.
	TriggerSandboxChanged KillTrigger = "SandboxChanged"
	// TriggerPodCgroupMissing: the pod's cgroup is gone, and all its containers are
	// proved to run outside of it, without the pod's limits.
	TriggerPodCgroupMissing KillTrigger = "PodCgroupMissing"
	// TriggerUnknownState: the runtime does not know the container's state; it is
	// killed so that there are never two instances of it.
	TriggerUnknownState KillTrigger = "UnknownState"
	// TriggerLivenessProbe: the liveness probe failed failureThreshold times.
	TriggerLivenessProbe KillTrigger = "LivenessProbe"
	// TriggerStartupProbe: the startup probe failed failureThreshold times.
	TriggerStartupProbe KillTrigger = "StartupProbe"
	// TriggerDefinitionChanged: a field of the container that is fixed at its
	// creation has changed in the template.
	TriggerDefinitionChanged KillTrigger = "DefinitionChanged"
	// TriggerWorkloadFinished: no container is kept and none is to be started.
	TriggerWorkloadFinished KillTrigger = "WorkloadFinished"
	// TriggerTermination: the NodeWorkload is being deleted, or has ended.
	TriggerTermination KillTrigger = "Termination"
	// TriggerGarbageCollection: a dead container of unknown state is killed
	// before it is removed.
	TriggerGarbageCollection KillTrigger = "GarbageCollection"
	// TriggerRestartAllContainers: a container's exit matched a rule whose action
	// is RestartAllContainers.
	TriggerRestartAllContainers KillTrigger = "RestartAllContainers"
	// TriggerRestartRequested: a person or program set kubectl.kubernetes.io/restartedAt in
	// the template.
	TriggerRestartRequested KillTrigger = "RestartRequested"
	// TriggerResizeRequired: changed resources need a restart by resizePolicy.
	TriggerResizeRequired KillTrigger = "ResizeRequired"
	// TriggerContainerRemoved: the template has no container of that name any
	// more.
	TriggerContainerRemoved KillTrigger = "ContainerRemoved"
	// TriggerOrphan: the container's NodeWorkload is gone.
	TriggerOrphan KillTrigger = "Orphan"
	// TriggerEvicted: the workload used more of the node's disk than its limits say: the
	// sizeLimit of an emptyDir, or ephemeral-storage.
	TriggerEvicted KillTrigger = "Evicted"
	// TriggerNodePressure: the node was short of memory, disk or process IDs.
	TriggerNodePressure KillTrigger = "NodePressure"
	// TriggerNodeShutdown: the node shuts down.
	TriggerNodeShutdown KillTrigger = "NodeShutdown"
	// TriggerStopRequested: a person or program asked that the container be stopped and
	// not be started.
	TriggerStopRequested KillTrigger = "StopRequested"
	// TriggerProcessesLeft: the workload has ended, and processes were left in its cgroup that
	// the runtime does not know. The record names no container.
	TriggerProcessesLeft KillTrigger = "ProcessesLeft"
)

// KillPhase is how far a kill has come.
//
// +kubebuilder:validation:Enum=PreStop;WaitingForTurn;Stopping;Done
type KillPhase string

// The phases of a kill, in their order.
const (
	// KillPhasePreStop: the preStop hook runs.
	KillPhasePreStop KillPhase = "PreStop"
	// KillPhaseWaitingForTurn: a sidecar waits for the containers that end before
	// it.
	KillPhaseWaitingForTurn KillPhase = "WaitingForTurn"
	// KillPhaseStopping: StopContainer is under way: the stop signal was sent.
	KillPhaseStopping KillPhase = "Stopping"
	// KillPhaseDone: the kill has ended; outcome says how, as far as it is known.
	KillPhaseDone KillPhase = "Done"
)

// KillOutcome is how a kill ended.
//
// +kubebuilder:validation:Enum=Graceful;Forced;AlreadyStopped;Failed
type KillOutcome string

// The outcomes of a kill.
const (
	// KillOutcomeGraceful: the container left within its time.
	KillOutcomeGraceful KillOutcome = "Graceful"
	// KillOutcomeForced: the runtime killed the container because the time of
	// StopContainer was over.
	KillOutcomeForced KillOutcome = "Forced"
	// KillOutcomeAlreadyStopped: the container had left before it was asked to. Where
	// exitedDuring is set, it left during the kill: nothing asked it to, or SIGKILL ended it.
	KillOutcomeAlreadyStopped KillOutcome = "AlreadyStopped"
	// KillOutcomeFailed: the runtime reported an error; the kill is tried again,
	// with a record of its own.
	KillOutcomeFailed KillOutcome = "Failed"
)

// GraceSource is where a grace period comes from.
//
// +kubebuilder:validation:Enum=Override;Deletion;Probe;Pod;Minimum
type GraceSource string

// The sources of a grace period.
const (
	// GraceSourceOverride: the caller of the kill gave it.
	GraceSourceOverride GraceSource = "Override"
	// GraceSourceDeletion: deletionGracePeriodSeconds of the NodeWorkload.
	GraceSourceDeletion GraceSource = "Deletion"
	// GraceSourceProbe: the failed probe's own terminationGracePeriodSeconds.
	GraceSourceProbe GraceSource = "Probe"
	// GraceSourcePod: terminationGracePeriodSeconds of the template.
	GraceSourcePod GraceSource = "Pod"
	// GraceSourceMinimum: none of the others was set: the kubelet's minimum, 2 s.
	GraceSourceMinimum GraceSource = "Minimum"
)

// PreStopOutcome is what became of a preStop hook.
//
// +kubebuilder:validation:Enum=Succeeded;Failed;TimedOut;Skipped
type PreStopOutcome string

// The outcomes of a preStop hook.
const (
	// PreStopSucceeded: the hook ended without an error.
	PreStopSucceeded PreStopOutcome = "Succeeded"
	// PreStopFailed: the hook ended with an error.
	PreStopFailed PreStopOutcome = "Failed"
	// PreStopTimedOut: the hook was cancelled when the grace period was over, or was cut off when the
	// shim was away: then its seconds are 0.
	PreStopTimedOut PreStopOutcome = "TimedOut"
	// PreStopSkipped: there was no time for the hook.
	PreStopSkipped PreStopOutcome = "Skipped"
)

// KillRecord describes one kill: who asked for it, what grace period it had, and
// how it ended. It is written when the kill begins and completed when it
// has ended.
type KillRecord struct {
	// id identifies the kill on its node.
	// +required
	// +kubebuilder:validation:MaxLength=128
	ID string `json:"id"`
	// sequence numbers the kills of the object in the order in which they began,
	// whatever the node's clock said.
	// +optional
	Sequence int64 `json:"sequence,omitempty"`
	// container is the name of the container; empty for processes that no container is
	// known of.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Container string `json:"container"`
	// containerID is the runtime's ID of the instance that was killed.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	ContainerID string `json:"containerID,omitempty"`
	// restartCount is the restart count of that instance.
	// +optional
	RestartCount int32 `json:"restartCount"`
	// trigger is what made the shim kill.
	// +required
	Trigger KillTrigger `json:"trigger"`
	// requestedBy is the part that asked: shim, manager, node controller, a
	// person's annotation, the deletion of the NodeWorkload; for a changed template the
	// field manager of the change, where it is known.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	RequestedBy string `json:"requestedBy,omitempty"`
	// message is the reason in the kubelet's words.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// changedFields are the fields of the container that differ from what it was made
	// from; set with trigger DefinitionChanged if the template before is known.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=64
	ChangedFields []string `json:"changedFields,omitempty"`
	// summary is the kill in one line.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Summary string `json:"summary,omitempty"`
	// phase is how far the kill has come.
	// +required
	Phase KillPhase `json:"phase"`
	// grace is the time the container was given.
	// +required
	Grace KillGrace `json:"grace"`
	// preStop is what became of the preStop hook; unset when there is none.
	// +optional
	PreStop *KillPreStop `json:"preStop,omitempty"`
	// stopSignal is the signal the container was stopped with.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	StopSignal string `json:"stopSignal,omitempty"`
	// paused: something had paused the container (ctr task pause) while it was to stop, so
	// that it could not act on the stop signal.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// stopTimeoutSeconds is the timeout given to the runtime's StopContainer,
	// after the hook's and the waiting time were taken off.
	// +optional
	StopTimeoutSeconds *int64 `json:"stopTimeoutSeconds,omitempty"`
	// outcome is how the kill ended; unset while it is under way, and where it is
	// not known: error then says why.
	// +optional
	Outcome KillOutcome `json:"outcome,omitempty"`
	// error is what the runtime answered when outcome is Failed, and why the
	// outcome is not known when a kill is done and has none.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Error string `json:"error,omitempty"`
	// exitedDuring is the phase in which the container exited without having got its stop
	// signal: PreStop or WaitingForTurn. Unset if it exited at another time, or that is not known.
	// +optional
	ExitedDuring KillPhase `json:"exitedDuring,omitempty"`
	// exitCode is the container's exit code.
	// +optional
	ExitCode *int32 `json:"exitCode,omitempty"`
	// reason is the runtime's reason of the exit, such as OOMKilled.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason,omitempty"`
	// startTime is when the kill began.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`\.[0-9]{6}`
	StartTime metav1.MicroTime `json:"startTime"`
	// stopTime is when StopContainer was called.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`\.[0-9]{6}`
	StopTime *metav1.MicroTime `json:"stopTime,omitempty"`
	// finishTime is when the kill had ended.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`\.[0-9]{6}`
	FinishTime *metav1.MicroTime `json:"finishTime,omitempty"`
}

// KillGrace is the time a container was given to leave.
type KillGrace struct {
	// seconds is the grace period of the whole kill: preStop hook, waiting for
	// its turn and stopping together.
	// +required
	Seconds int64 `json:"seconds"`
	// source is where the grace period comes from.
	// +required
	Source GraceSource `json:"source"`
	// usedSeconds is how much of it the kill took, in whole seconds.
	// +optional
	UsedSeconds int64 `json:"usedSeconds"`
	// deadline is when the grace period is over.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`\.[0-9]{6}`
	Deadline *metav1.MicroTime `json:"deadline,omitempty"`
	// shortenedFromSeconds is the grace period the kill began with when it was
	// shortened while it was under way.
	// +optional
	ShortenedFromSeconds *int64 `json:"shortenedFromSeconds,omitempty"`
	// shortenedToSeconds is how much time the kill was given when it was shortened,
	// counted from that moment.
	// +optional
	ShortenedToSeconds *int64 `json:"shortenedToSeconds,omitempty"`
}

// KillPreStop is what became of a preStop hook.
type KillPreStop struct {
	// handler is the kind of the hook: exec, httpGet or sleep.
	// +required
	// +kubebuilder:validation:Enum=exec;httpGet;sleep
	Handler string `json:"handler"`
	// outcome is how the hook ended; unset while it runs.
	// +optional
	Outcome PreStopOutcome `json:"outcome,omitempty"`
	// seconds is how long it ran, in whole seconds rounded down: this is what
	// was taken off the grace period.
	// +optional
	Seconds int64 `json:"seconds"`
}
