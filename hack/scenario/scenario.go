// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scenario describes what happens to one pod on one node: the template,
// how its containers and hooks behave, and a list of steps. A scenario is data,
// so that it can be written to a file, made smaller and played again.
package scenario

import (
	corev1 "k8s.io/api/core/v1"
)

// Scenario is one pod's life.
type Scenario struct {
	Seed uint64      `json:"seed"`
	Pod  *corev1.Pod `json:"pod"`
	// Images are present at the start; all others have to be pulled.
	Images []string `json:"images,omitempty"`
	// PullSeconds is how long a pull takes.
	PullSeconds float64 `json:"pullSeconds,omitempty"`
	// Scripts say how the containers behave, by name.
	Scripts map[string]*Script `json:"scripts,omitempty"`
	// AdditionalIPs are those of every sandbox beside its first address.
	AdditionalIPs []string `json:"additionalIPs,omitempty"`
	Steps         []Step   `json:"steps"`
}

// Script is the behaviour of all instances of a container.
type Script struct {
	// Runs are the instances in the order of their creation; the last one stands
	// for all that follow.
	Runs []Run `json:"runs,omitempty"`
	// StopSeconds is how long the container takes to leave after its stop signal,
	// and StopExitCode what it leaves with. One that is killed by force leaves
	// 137.
	StopSeconds  float64 `json:"stopSeconds,omitempty"`
	StopExitCode int32   `json:"stopExitCode,omitempty"`
	PreStop      Hook    `json:"preStop,omitzero"`
	PostStart    Hook    `json:"postStart,omitzero"`
	// RotatesLogs makes a rotated log lie beside each instance's own.
	RotatesLogs bool `json:"rotatesLogs,omitempty"`
}

// Run is one instance: when it exits by itself, nil for never.
type Run struct {
	Seconds  *float64 `json:"seconds,omitempty"`
	ExitCode int32    `json:"exitCode,omitempty"`
	OOM      bool     `json:"oom,omitempty"`
	// MessageBytes is how long its termination message is, and LogLines how many
	// lines it logs.
	MessageBytes int `json:"messageBytes,omitempty"`
	LogLines     int `json:"logLines,omitempty"`
}

// Hook is how long a hook takes and what it ends with.
type Hook struct {
	Seconds  float64 `json:"seconds,omitempty"`
	Error    string  `json:"error,omitempty"`
	ExitCode int32   `json:"exitCode,omitempty"`
	// HTTPOnHTTPS makes an https request fail as against a server of plain HTTP.
	HTTPOnHTTPS bool `json:"httpOnHTTPS,omitempty"`
}

// What a step does once its events have happened.
const (
	Sync    = "sync"
	Kill    = "kill" // the termination: what follows a deletion
	GC      = "gc"
	Restart = "restart" // the agent forgets all it knows, and syncs
)

// Step is one look of the agent at the pod.
type Step struct {
	// Wait is how many seconds pass after the step before.
	Wait   float64 `json:"wait,omitempty"`
	Events []Event `json:"events,omitempty"`
	Do     string  `json:"do"`
}

// The kinds of events.
const (
	Exit            = "exit"            // the newest instance exits
	SandboxDied     = "sandboxDied"     // the sandbox and all in it die
	SandboxNotReady = "sandboxNotReady" // the sandbox dies, its containers continue
	SandboxLost     = "sandboxLost"     // the runtime has forgotten sandbox and containers
	SandboxOnlyLost = "sandboxOnlyLost" // the runtime has forgotten the sandbox
	SandboxSecond   = "sandboxSecond"   // a second ready sandbox appears
	SandboxNoIP     = "sandboxNoIP"     // the next sandbox gets no address
	SandboxNoStatus = "sandboxNoStatus" // nor does the runtime report its network
	SandboxMode     = "sandboxMode"     // it comes up in the other network
	Unknown         = "unknown"         // the runtime does not know the newest instance's state
	UnknownDead     = "unknownDead"     // nor that of one that has exited
	Removed         = "removed"         // the newest instance is removed by another
	Liveness        = "liveness"        // the newest instance's probe fails (or succeeds again)
	Startup         = "startup"         // the newest instance's startup probe has a verdict
	Update          = "update"          // the template changes
	Delete          = "delete"          // the pod is deleted
	Fail            = "fail"            // a CRI method fails, in this step only
	ImageGone       = "imageGone"       // an image was removed from the node
)

// Event is something that happens to the pod.
type Event struct {
	Kind      string `json:"kind"`
	Container string `json:"container,omitempty"`
	// ExitCode and OOM of an Exit, and how many seconds ago it was.
	ExitCode int32   `json:"exitCode,omitempty"`
	OOM      bool    `json:"oom,omitempty"`
	Ago      float64 `json:"ago,omitempty"`
	// Verdict of a probe: success, failure or unknown.
	Verdict string `json:"verdict,omitempty"`
	// Method that fails for Container (any if empty), and the kind of its error.
	Method string `json:"method,omitempty"`
	Error  string `json:"error,omitempty"`
	Image  string `json:"image,omitempty"`
	// Grace of a Delete; nil is the pod's own.
	Grace *int64 `json:"grace,omitempty"`
	// Pod is the new template of an Update.
	Pod *corev1.Pod `json:"pod,omitempty"`
}
