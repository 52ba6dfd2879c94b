// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

// Differences are those from the kubelet that change what the runtime is asked to
// do, each with its rows in docs/kubelet-differences.md. Production has all of
// them (AllDifferences), the comparisons with the kubelet have none: the zero
// value behaves as the kubelet.
type Differences struct {
	// KillStrays: "A container that the template no longer has", "An older running
	// instance of a name". Without it a sync looks at neither, and a container that
	// the pod does not name cannot be killed.
	KillStrays bool
	// KillByRecord: "A kill for a changed definition". Without it the kill goes by
	// the template.
	KillByRecord bool
	// SpareKilled: "Changed CPU and memory of a pod that is killed for good in the
	// same sync". Without it the dead containers are resized.
	SpareKilled bool
	// KeepSandbox: "A container that could not be killed". Without it its sandbox is
	// stopped, and the container with it.
	KeepSandbox bool
	// MapSidecarPorts: "A sidecar's `hostPort`". Without it only those of main
	// containers are mapped.
	MapSidecarPorts bool
	// KillUnknown: "A container in unknown state when its pod is killed". Without it
	// the end of the sandbox kills such a container by force.
	KillUnknown bool
	// ForgiveDeliberate: "Back-off and changes on purpose". Without it every restart
	// counts, whatever ended the instance before.
	ForgiveDeliberate bool
	// BackOffResets: "Back-off and RestartAllContainers". Without it a pod whose container asks again
	// and again that it start over does so without a pause.
	BackOffResets bool
	// KeepBackoff: "Back-off at a restart of the agent". Without it a restart of the
	// agent forgets it.
	KeepBackoff bool
	// CancelHooks: "A preStop hook that overruns", "A preStop hook, or a wait for other
	// containers, when its own container has exited". Without it the hook runs on beside
	// StopContainer, and its failure is reported when it ends.
	CancelHooks bool
	// KillsAtOnce: "Order of kills in one sync", "What waits for a kill". Without it the kills
	// of a sync follow one another, and the first that fails ends the sync.
	KillsAtOnce bool
	// RetryInTurn: "When a kill that failed is tried again". Without it a kill that others wait for
	// is tried again only when they have waited out their time.
	RetryInTurn bool
	// HookInOwnSandbox: "An HTTP hook without a host". Without it the hook asks the
	// pod's newest sandbox.
	HookInOwnSandbox bool
	// CheckStopped: "A container that runs on, or whose state is not known". Without it
	// what the runtime answered to StopContainer is believed, and a successor started.
	CheckStopped bool
	// StopSignals: "`lifecycle.stopSignal`". Without it the signal is not asked for.
	StopSignals bool
	// ParallelPulls: "Image pulls". Without it there is one at a time.
	ParallelPulls bool
	// PullBeforeKill: "Image pulls and changes on purpose". Without it a container is
	// killed for a change whether or not its image can be pulled.
	PullBeforeKill bool
	// ObjectsBeforeKill: "Missing objects and changes on purpose". Without it a container
	// is killed for a change whether or not what the new one refers to is there.
	ObjectsBeforeKill bool
	// OwnSandbox: "Init containers and another sandbox", "A container that runs in an
	// earlier sandbox". Without it what ran in any sandbox counts.
	OwnSandbox bool
	// NextSandbox: "A sandbox that is lost under restart policy Never", "A new sandbox and a
	// container's own restart policy". Without it a pod of policy Never stays down once
	// anything of it was created, and any other starts all main containers again but those
	// that succeeded under OnFailure.
	NextSandbox bool
	// KeepExits: "An exited container that was removed over CRI". Without it such a container
	// never ran.
	KeepExits bool
}

// AllDifferences returns what production uses.
func AllDifferences() Differences {
	return Differences{
		KillStrays: true, KillByRecord: true, SpareKilled: true, KeepSandbox: true, MapSidecarPorts: true,
		KillUnknown: true, ForgiveDeliberate: true, BackOffResets: true, KeepBackoff: true, CancelHooks: true, KillsAtOnce: true, RetryInTurn: true, HookInOwnSandbox: true,
		CheckStopped: true, StopSignals: true, ParallelPulls: true, PullBeforeKill: true, ObjectsBeforeKill: true,
		OwnSandbox: true, NextSandbox: true, KeepExits: true,
	}
}
