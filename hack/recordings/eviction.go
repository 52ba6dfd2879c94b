// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package recordings

import corev1 "k8s.io/api/core/v1"

// EvictionFlags are flags about node pressure, by signal.
type EvictionFlags struct {
	Hard            map[string]string `json:"hard,omitempty"`
	Soft            map[string]string `json:"soft,omitempty"`
	SoftGracePeriod map[string]string `json:"softGracePeriod,omitempty"`
	MinimumReclaim  map[string]string `json:"minimumReclaim,omitempty"`
}

// Thresholds is a line of eviction-thresholds.
type Thresholds struct {
	ID    string        `json:"id"`
	Flags EvictionFlags `json:"flags"`
	// Failed: the flags are refused.
	Failed bool `json:"failed"`
	// Thresholds in their order by signal, hard ones first.
	Thresholds []Threshold `json:"thresholds"`
	// Observed are signals, and Met and Unresolved the thresholds that these meet, without and
	// with what is to be reclaimed at least, by their place.
	Observed   map[string]Available `json:"observed"`
	Met        []int                `json:"met"`
	Unresolved []int                `json:"unresolved"`
}

// Threshold is one that was parsed. A percentage is a share of 1.
type Threshold struct {
	Signal       string  `json:"signal"`
	Value        Amount  `json:"value"`
	GraceSeconds float64 `json:"graceSeconds"`
	MinReclaim   *Amount `json:"minReclaim,omitempty"`
}

// Amount is a quantity or a share.
type Amount struct {
	Quantity   string  `json:"quantity,omitempty"`
	Percentage float32 `json:"percentage,omitempty"`
}

// Available is how much of something is available.
type Available struct {
	Available int64 `json:"available"`
	Capacity  int64 `json:"capacity"`
}

// Rank is a line of eviction-rank.
type Rank struct {
	ID     string `json:"id"`
	Signal string `json:"signal"`
	// ImageFs: the runtime has a disk of its own.
	ImageFs bool `json:"imageFs"`
	// Pods with what they use by name; one without is one of which nothing is known.
	Pods []*corev1.Pod      `json:"pods"`
	Uses map[string]*PodUse `json:"uses"`
	// Order are the names in the order in which the pods are evicted.
	Order []string `json:"order"`
}

// PodUse is what a pod uses.
type PodUse struct {
	Memory     *uint64        `json:"memory,omitempty"`
	Processes  *uint64        `json:"processes,omitempty"`
	Containers []ContainerUse `json:"containers,omitempty"`
	Volumes    []VolumeUse    `json:"volumes,omitempty"`
}

// ContainerUse is what a container uses; nil is not known.
type ContainerUse struct {
	Name   string   `json:"name"`
	Memory *uint64  `json:"memory,omitempty"`
	RootFs *DiskUse `json:"rootFs,omitempty"`
	Logs   *DiskUse `json:"logs,omitempty"`
}

// VolumeUse is what a volume uses.
type VolumeUse struct {
	Name string `json:"name"`
	DiskUse
}

// DiskUse is what something uses of a disk.
type DiskUse struct {
	Bytes  *uint64 `json:"bytes,omitempty"`
	Inodes *uint64 `json:"inodes,omitempty"`
}

// Eviction is a line of eviction-trace: looks at a node, one after the other.
type Eviction struct {
	ID                string         `json:"id"`
	Flags             EvictionFlags  `json:"flags"`
	MaxGraceSeconds   int64          `json:"maxGraceSeconds"`
	TransitionSeconds float64        `json:"transitionSeconds"`
	ImageFs           bool           `json:"imageFs"`
	Pods              []*corev1.Pod  `json:"pods"`
	Steps             []EvictionStep `json:"steps"`
}

// EvictionStep is one look and what it came to.
type EvictionStep struct {
	// Now is in seconds.
	Now      float64              `json:"now"`
	Observed map[string]Available `json:"observed"`
	// Reclaimed is what is observed once images and containers were removed.
	Reclaimed map[string]Available `json:"reclaimed"`
	Uses      map[string]*PodUse   `json:"uses"`
	EvictionAnswer
}

// EvictionAnswer is what the kubelet answered.
type EvictionAnswer struct {
	// Conditions of the node, sorted.
	Conditions []string `json:"conditions"`
	// Actions are removals of containers and images, and events, in their order.
	Actions []string `json:"actions"`
	// Killed is the pod that is ended, "" for none, Override its grace period in seconds.
	Killed    string               `json:"killed,omitempty"`
	Override  int64                `json:"override,omitempty"`
	Message   string               `json:"message,omitempty"`
	Condition *corev1.PodCondition `json:"condition,omitempty"`
	// Annotations of the event about it.
	Annotations map[string]string `json:"annotations,omitempty"`
	// Refused are the pods that would not be admitted then, with the message where there is one
	// condition only: several are in no order.
	Refused map[string]string `json:"refused"`
}
