// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package recordings

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Kill is a line of kill-trace, and with no mode one of order-trace.
type Kill[Answer any] struct {
	ID                  string      `json:"id"`
	Mode                string      `json:"mode,omitempty"`
	Pod                 *corev1.Pod `json:"pod"`
	GracePeriodOverride *int64      `json:"gracePeriodOverride"`
	*KillContainer
	Hooks   map[string]Hook `json:"hooks"`
	Runtime KillRuntime     `json:"runtime"`
	Output  Answer          `json:"output"`
}

// KillContainer is what killContainer is given beside.
type KillContainer struct {
	ContainerName string `json:"containerName"`
	ContainerID   string `json:"containerID"`
	Message       string `json:"message"`
	Reason        string `json:"reason"`
}

// Hook is what a hook does.
type Hook struct {
	Seconds    float64 `json:"seconds"`
	Error      string  `json:"error,omitempty"`
	HTTPStatus int     `json:"httpStatus,omitempty"`
}

// KillRuntime is what is on the runtime.
type KillRuntime struct {
	Containers []RunningContainer `json:"containers"`
	Sandboxes  []RunningSandbox   `json:"sandboxes"`
}

// RunningContainer is a container to kill.
type RunningContainer struct {
	ID          string            `json:"id"`
	Name        string            `json:"name"`
	StopSeconds float64           `json:"stopSeconds"`
	StopError   string            `json:"stopError"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// RunningSandbox is a sandbox to stop.
type RunningSandbox struct {
	ID        string `json:"id"`
	State     string `json:"state"`
	IP        string `json:"ip"`
	StopError string `json:"stopError"`
}

// Sync is a line of syncpod-trace.
type Sync[Answer any] struct {
	ID                      string          `json:"id"`
	Pod                     *corev1.Pod     `json:"pod"`
	PodStatus               PodStatus       `json:"podStatus"`
	Probes                  Probes          `json:"probes"`
	RestartAllContainers    bool            `json:"restartAllContainers"`
	Now                     time.Time       `json:"now"`
	Backoff                 []SyncBackoff   `json:"backOff"`
	ImagesPresent           []string        `json:"imagesPresent"`
	Hooks                   map[string]Hook `json:"hooks"`
	PodTerminationRequested bool            `json:"podTerminationRequested"`
	Runtime                 SyncRuntime     `json:"runtime"`
	Output                  Answer          `json:"output"`
}

// SyncBackoff is the back-off of a container.
type SyncBackoff struct {
	Container      string    `json:"container"`
	BackoffSeconds float64   `json:"backoffSeconds"`
	LastUpdate     time.Time `json:"lastUpdate"`
}

// SyncRuntime is how the runtime behaves.
type SyncRuntime struct {
	Containers            []SyncContainer   `json:"containers"`
	Sandboxes             []SyncSandbox     `json:"sandboxes"`
	PullError             map[string]string `json:"pullError"`
	CreateError           map[string]string `json:"createError"`
	StartError            map[string]string `json:"startError"`
	RunPodSandboxError    string            `json:"runPodSandboxError"`
	PodSandboxStatusError string            `json:"podSandboxStatusError"`
}

// SyncContainer is how a container behaves.
type SyncContainer struct {
	ID          string  `json:"id"`
	StopError   string  `json:"stopError"`
	RemoveError string  `json:"removeError"`
	StopSeconds float64 `json:"stopSeconds"`
}

// SyncSandbox is how a sandbox behaves.
type SyncSandbox struct {
	ID        string `json:"id"`
	StopError string `json:"stopError"`
}

// GC is a line of gc.
type GC[Answer any] struct {
	ID                  string           `json:"id"`
	Pods                map[string]GCPod `json:"pods"`
	Containers          []GCContainer    `json:"containers"`
	Sandboxes           []GCSandbox      `json:"sandboxes"`
	Policy              GCPolicy         `json:"policy"`
	AllSourcesReady     bool             `json:"allSourcesReady"`
	EvictNonDeletedPods bool             `json:"evictNonDeletedPods"`
	Output              Answer           `json:"output"`
}

// GCPod is what the pod workers know of a pod.
type GCPod struct {
	ContentRemoved bool   `json:"shouldPodContentBeRemoved"`
	RuntimeRemoved bool   `json:"shouldPodRuntimeBeRemoved"`
	GraceSeconds   *int64 `json:"terminationGracePeriodSeconds"`
}

// GCContainer is a container to collect, or not.
type GCContainer struct {
	ID          string  `json:"id"`
	Name        string  `json:"name"`
	PodUID      string  `json:"podUID"`
	SandboxID   string  `json:"sandboxID"`
	State       string  `json:"state"`
	AgeSeconds  float64 `json:"ageSeconds"`
	StopError   string  `json:"stopError"`
	RemoveError string  `json:"removeError"`
}

// GCSandbox is a sandbox to collect, or not.
type GCSandbox struct {
	ID         string  `json:"id"`
	PodUID     string  `json:"podUID"`
	State      string  `json:"state"`
	AgeSeconds float64 `json:"ageSeconds"`
	StopError  string  `json:"stopError"`
}

// GCPolicy is what garbage collection keeps.
type GCPolicy struct {
	MinAgeSeconds      float64 `json:"minAgeSeconds"`
	MaxPerPodContainer int     `json:"maxPerPodContainer"`
	MaxContainers      int     `json:"maxContainers"`
}

// Life is a line of lifecycle-trace: a pod over a time, on a runtime whose
// containers follow a script.
type Life struct {
	ID             string                `json:"id"`
	Pod            *corev1.Pod           `json:"pod"`
	Start          time.Time             `json:"start"`
	HorizonSeconds int                   `json:"horizonSeconds"`
	Scripts        map[string]LifeScript `json:"scripts"`
	SandboxDeathAt *float64              `json:"sandboxDeathAt"`
	Hooks          map[string]Hook       `json:"hooks"`
	ImagesPresent  []string              `json:"imagesPresent"`
	Output         LifeAnswer            `json:"output"`
}

// LifeScript is what the instances of a container do.
type LifeScript struct {
	Runs []struct {
		RunSeconds *float64 `json:"runSeconds"`
		ExitCode   int32    `json:"exitCode"`
	} `json:"runs"`
	LivenessFailureAt   []float64 `json:"livenessFailureAt"`
	StartupSuccessAfter *float64  `json:"startupSuccessAfterSeconds"`
	StartupFailureAfter *float64  `json:"startupFailureAfterSeconds"`
	StopSeconds         float64   `json:"stopSeconds"`
	StopExitCode        int32     `json:"stopExitCode"`
}

// LifeAnswer is what the syncs of a pod did, and what it had in the end.
type LifeAnswer struct {
	Syncs    []LifeSync           `json:"syncs"`
	Terminal bool                 `json:"terminal"`
	Final    map[string]LifeFinal `json:"final"`
}

// LifeSync is one sync that did something.
type LifeSync struct {
	T                    float64  `json:"t"`
	EndedAt              float64  `json:"endedAt"`
	RestartAllContainers bool     `json:"restartAllContainers"`
	Ops                  []Entry  `json:"ops"`
	Results              []Result `json:"results"`
}

// LifeFinal is the newest instance of a container.
type LifeFinal struct {
	ID           string `json:"id"`
	State        string `json:"state"`
	ExitCode     int32  `json:"exitCode"`
	RestartCount int    `json:"restartCount"`
}
