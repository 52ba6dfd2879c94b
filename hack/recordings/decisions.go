// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package recordings

import (
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Plan is a line of plan-fuzz and plan-upstream; Answer is a list of actions.
type Plan[Answer any] struct {
	ID                   string          `json:"id"`
	Pod                  *corev1.Pod     `json:"pod"`
	PodStatus            PodStatus       `json:"podStatus"`
	Probes               Probes          `json:"probes"`
	RestartAllContainers bool            `json:"restartAllContainers"`
	Gates                map[string]bool `json:"gates"`
	// ActuatedContainerResources by name, of running containers.
	ActuatedContainerResources map[string]corev1.ResourceRequirements `json:"actuatedContainerResources,omitempty"`
	ActuatedPodResources       *corev1.ResourceRequirements           `json:"actuatedPodResources,omitempty"`
	Actions                    Answer                                 `json:"actions"`
}

// Probes are verdicts by container ID.
type Probes struct {
	Liveness map[string]string `json:"liveness"`
	Startup  map[string]string `json:"startup"`
}

// Status is a line of status.
type Status[Answer any] struct {
	ID             string            `json:"id"`
	Pod            *corev1.Pod       `json:"pod"`
	PodStatus      PodStatus         `json:"podStatus"`
	ReasonCache    map[string]Reason `json:"reasonCache"`
	StartupResults map[string]string `json:"startupResults"`
	PodIsTerminal  bool              `json:"podIsTerminal"`
	Output         Answer            `json:"output"`
}

// Reason is why a container is not started.
type Reason struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Restart is a line of restart-decision.
type Restart[Answer any] struct {
	ID           string            `json:"id"`
	Pod          *corev1.Pod       `json:"pod"`
	PodStatus    PodStatus         `json:"podStatus"`
	APIPodStatus *corev1.PodStatus `json:"apiPodStatus"`
	Output       Answer            `json:"output"`
}

// Grace is a line of grace-table.
type Grace struct {
	ID       string      `json:"id"`
	Deletion *int64      `json:"podDeletionGracePeriodSeconds"`
	Pod      *int64      `json:"podTerminationGracePeriodSeconds"`
	Startup  *ProbeGrace `json:"startupProbe"`
	Liveness *ProbeGrace `json:"livenessProbe"`
	Reason   string      `json:"reason"`
	Seconds  int64       `json:"seconds"`
}

// ProbeGrace is a probe's grace period.
type ProbeGrace struct {
	Seconds *int64 `json:"terminationGracePeriodSeconds"`
}

// EffectiveGrace is a line of effective-grace.
type EffectiveGrace struct {
	ID        string `json:"id"`
	Current   int64  `json:"currentGracePeriod"`
	Deletion  *int64 `json:"podDeletionGracePeriodSeconds"`
	Override  *int64 `json:"overrideSeconds"`
	Pod       *int64 `json:"podTerminationGracePeriodSeconds"`
	Seconds   int64  `json:"seconds"`
	Shortened bool   `json:"shortened"`
}

// Backoff is a line of backoff.
type Backoff struct {
	ID            string        `json:"id"`
	Container     string        `json:"container"`
	BaseSeconds   float64       `json:"baseSeconds"`
	MaxSeconds    float64       `json:"maxSeconds"`
	ExpireSeconds float64       `json:"expireSeconds"`
	Steps         []BackoffStep `json:"steps"`
}

// BackoffConfig is a line of backoff-config.
type BackoffConfig struct {
	ID          string          `json:"id"`
	Gates       map[string]bool `json:"gates"`
	Configured  int32           `json:"maxContainerRestartPeriodSeconds"`
	BaseSeconds int64           `json:"baseSeconds"`
	MaxSeconds  int64           `json:"maxSeconds"`
}

// BackoffStep is one question and its answer.
type BackoffStep struct {
	Now          float64 `json:"now"`
	FinishedAt   float64 `json:"finishedAt"`
	State        string  `json:"state"`
	Image        string  `json:"image"`
	CreatedFirst bool    `json:"createdFirst"`
	GCAfter      bool    `json:"gcAfter,omitempty"`
	BackoffAnswer
}

// BackoffAnswer is what doBackOff answered.
type BackoffAnswer struct {
	InBackOff      bool     `json:"inBackOff"`
	Message        string   `json:"message"`
	Error          string   `json:"error,omitempty"`
	Until          *float64 `json:"until,omitempty"`
	BackoffSeconds float64  `json:"backoffSeconds"`
	Events         []Entry  `json:"events"`
}

// Hash is a line of hash.
type Hash struct {
	ID          string            `json:"id"`
	Container   corev1.Container  `json:"container"`
	Hash        uint64            `json:"hash"`
	Annotations map[string]string `json:"annotations"`
}

// PodStatus is what the kubelet has observed.
type PodStatus struct {
	ID                 string      `json:"id"`
	Name               string      `json:"name"`
	Namespace          string      `json:"namespace"`
	IPs                []string    `json:"ips"`
	Sandboxes          []Sandbox   `json:"sandboxes"`
	Containers         []Container `json:"containers"`
	ActiveContainerIDs []string    `json:"activeContainerIDs,omitzero"`
}

// Sandbox is an observed sandbox.
type Sandbox struct {
	ID               string   `json:"id"`
	State            string   `json:"state"`
	Attempt          uint32   `json:"attempt"`
	CreatedAt        int64    `json:"createdAt"`
	NetworkNamespace string   `json:"networkNamespace"`
	Network          *Network `json:"network"`
}

// Network is a sandbox's network status.
type Network struct {
	IP            string   `json:"ip"`
	AdditionalIPs []string `json:"additionalIPs"`
}

// Container is an observed container.
type Container struct {
	ID           string          `json:"id"`
	Name         string          `json:"name"`
	State        string          `json:"state"`
	ExitCode     int             `json:"exitCode"`
	Reason       string          `json:"reason"`
	Message      string          `json:"message"`
	Hash         uint64          `json:"hash"`
	HashMatches  *bool           `json:"hashMatches"`
	RestartCount int             `json:"restartCount"`
	CreatedAt    Time            `json:"createdAt"`
	StartedAt    Time            `json:"startedAt"`
	FinishedAt   Time            `json:"finishedAt"`
	Image        string          `json:"image"`
	ImageID      string          `json:"imageID"`
	ImageRef     string          `json:"imageRef"`
	Resources    json.RawMessage `json:"resources,omitempty"`
}

// Time is null in JSON where there is none.
type Time struct{ time.Time }

// MarshalJSON implements json.Marshaler.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return json.Marshal(t.UTC())
}
