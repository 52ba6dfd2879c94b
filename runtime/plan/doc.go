// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plan decides what has to happen to the containers of one pod: which
// are killed and why, which are started, whether the sandbox is created again, how
// long a container has to leave, and who waits for whom. It is the kubelet's
// computePodActions (v1.36.3) as a function of values.
//
// The package is pure: no clock, no client, no logger, no goroutine. What it
// needs comes in as values; what it decides goes out as values with a trigger
// and a message. Where it differs from the kubelet on purpose, the comment at
// that place says so and docs/kubelet-differences.md lists it.
//
// # Where each trigger is decided
//
//	SandboxChanged        sandbox.go      sandboxChange
//	PodCgroupMissing      sandbox.go      cgroupMissing
//	WorkloadFinished      containers.go   finish
//	UnknownState          containers.go   killUnknown; strays.go strays (a second instance)
//	DefinitionChanged     definition.go   DefinitionChanged
//	RestartRequested      definition.go   RestartRequested; asked.go restartAsked
//	StopRequested         asked.go        stopAsked
//	LivenessProbe         rules.go        livenessFailed
//	StartupProbe          rules.go        startupFailed
//	ResizeRequired        resize.go       resizeRequired
//	ContainerRemoved      strays.go       removed
//	RestartAllContainers  reset.go        containersToReset
//	Evicted               evict.go        DecideEviction
//	NodePressure          pressureend.go  DecidePressureEviction
//	NodeShutdown          shutdown.go     DecideShutdown
//	ProcessesLeft         leftovers.go    MayKillLeftovers
//
// Which of them wait for the image of what is started next: wait.go, awaits.
//
// The others (PostStartHookFailed, Termination, Orphan, GarbageCollection) are
// no decision about a sync; their callers hand the trigger to the kill.
package plan
