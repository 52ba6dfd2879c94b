// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Signal is something of the node that can run short. (kubelet eviction/api/types.go:Signal)
type Signal string

// The signals, by the kubelet's names.
const (
	SignalMemoryAvailable   Signal = "memory.available"
	SignalNodeFsAvailable   Signal = "nodefs.available"
	SignalNodeFsInodesFree  Signal = "nodefs.inodesFree"
	SignalImageFsAvailable  Signal = "imagefs.available"
	SignalImageFsInodesFree Signal = "imagefs.inodesFree"
	SignalPIDAvailable      Signal = "pid.available"
)

// Resources that have no name in the API. (kubelet eviction/helpers.go)
const (
	resourceInodes corev1.ResourceName = "inodes"
	resourcePids   corev1.ResourceName = "pids"
)

// shortage is what a signal means: the node's condition, and what evictions give back.
type shortage struct {
	condition corev1.NodeConditionType
	resource  corev1.ResourceName
}

// signals are all signals in the order in which the node reclaims: memory first, as in the
// kubelet, then as listed here, where the kubelet takes any. (kubelet eviction/helpers.go:
// signalToNodeCondition, signalToResource, byEvictionPriority)
var signals = []Signal{
	SignalMemoryAvailable, SignalNodeFsAvailable, SignalNodeFsInodesFree, SignalImageFsAvailable, SignalImageFsInodesFree, SignalPIDAvailable,
}

var shortages = map[Signal]shortage{
	SignalMemoryAvailable:   {corev1.NodeMemoryPressure, corev1.ResourceMemory},
	SignalNodeFsAvailable:   {corev1.NodeDiskPressure, corev1.ResourceEphemeralStorage},
	SignalNodeFsInodesFree:  {corev1.NodeDiskPressure, resourceInodes},
	SignalImageFsAvailable:  {corev1.NodeDiskPressure, corev1.ResourceEphemeralStorage},
	SignalImageFsInodesFree: {corev1.NodeDiskPressure, resourceInodes},
	SignalPIDAvailable:      {corev1.NodePIDPressure, resourcePids},
}

// PressureConditions are the conditions of a node that can be under pressure, in the order in
// which they are shown.
var PressureConditions = []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure}

// Resource is what is short when the signal is.
func (s Signal) Resource() corev1.ResourceName { return shortages[s].resource }

// ThresholdValue is an amount, or a share of all there is.
type ThresholdValue struct {
	// Quantity is nil where Percentage counts, which is a share of 1.
	Quantity   *resource.Quantity
	Percentage float32
}

// of is the amount, where there is so much in all. (kubelet eviction/api/types.go:
// GetThresholdQuantity)
func (v ThresholdValue) of(capacity *resource.Quantity) resource.Quantity {
	if v.Quantity != nil {
		return v.Quantity.DeepCopy()
	}
	return *resource.NewQuantity(int64(float64(capacity.Value())*float64(v.Percentage)), resource.BinarySI)
}

// Threshold is met while less than a value is available.
type Threshold struct {
	Signal Signal
	Value  ThresholdValue
	// GracePeriod is for how long it has to be met before something is evicted; 0 is a hard
	// threshold.
	GracePeriod time.Duration
	// MinReclaim is how much above the value has to be available again; nil is nothing.
	MinReclaim *ThresholdValue
}

func (t *Threshold) hard() bool { return t.GracePeriod == 0 }

// Observation is how much of something there is, and how much of it is available.
type Observation struct{ Available, Capacity *resource.Quantity }

// Observations are what was observed of the node. A signal may have several observations, such
// as those of two file systems; one that could not be observed has none.
type Observations map[Signal][]Observation

// closest returns the amount that a threshold asks for, and the observation that lacks most of it
// or has least above it; false where nothing was observed. strict adds what is to be reclaimed at
// least.
func (o Observations) closest(t *Threshold, strict bool) (want resource.Quantity, has Observation, found bool) {
	var least resource.Quantity
	for _, seen := range o[t.Signal] {
		goal := t.Value.of(seen.Capacity)
		if strict && t.MinReclaim != nil {
			goal.Add(t.MinReclaim.of(seen.Capacity))
		}
		left := seen.Available.DeepCopy()
		left.Sub(goal)
		if !found || left.Cmp(least) < 0 {
			least, want, has, found = left, goal, seen, true
		}
	}
	return want, has, found
}

// ThresholdsMet returns the thresholds that are met, however long that is so. strict compares
// with what is to be reclaimed at least, too. A signal that was not observed meets none.
// (kubelet eviction/helpers.go:thresholdsMet)
func ThresholdsMet(thresholds []Threshold, observed Observations, strict bool) []Threshold {
	var met []Threshold
	for i := range thresholds {
		if want, has, found := observed.closest(&thresholds[i], strict); found && want.Cmp(*has.Available) > 0 {
			met = append(met, thresholds[i])
		}
	}
	return met
}

// Pressure is what is known of the node's pressure from one look to the next. Its zero value is
// that of a node that was never looked at.
type Pressure struct {
	// Since is when each threshold that is met was met first without an interruption.
	Since map[Threshold]time.Time
	// Unresolved are those that were met for their grace periods at the last look: they stay
	// until what is to be reclaimed at least is available again.
	Unresolved []Threshold
	// Seen is when each condition was last observed.
	Seen map[corev1.NodeConditionType]time.Time
}

// Look returns what is known after a look at the node, and the thresholds that something has to
// be reclaimed for, the most urgent one first. (kubelet eviction_manager.go:synchronize)
func (p Pressure) Look(thresholds []Threshold, observed Observations, now time.Time) (Pressure, []Threshold) {
	met := ThresholdsMet(thresholds, observed, false)
	for _, t := range ThresholdsMet(p.Unresolved, observed, true) {
		if !slices.Contains(met, t) {
			met = append(met, t)
		}
	}
	next := Pressure{Since: make(map[Threshold]time.Time, len(met)), Seen: maps.Clone(p.Seen)}
	if next.Seen == nil {
		next.Seen = map[corev1.NodeConditionType]time.Time{}
	}
	for _, t := range met {
		since, before := p.Since[t]
		if !before {
			since = now
		}
		next.Since[t] = since
		next.Seen[shortages[t.Signal].condition] = now
		if now.Sub(since) >= t.GracePeriod {
			next.Unresolved = append(next.Unresolved, t)
		}
	}
	return next, byUrgency(next.Unresolved)
}

// byUrgency orders thresholds by what is reclaimed first. Of one signal a hard threshold comes
// before a soft one, where the kubelet takes any.
func byUrgency(thresholds []Threshold) []Threshold {
	return slices.SortedStableFunc(slices.Values(thresholds), func(a, b Threshold) int {
		if a.Signal != b.Signal {
			return slices.Index(signals, a.Signal) - slices.Index(signals, b.Signal)
		}
		return cmpBool(a.hard(), b.hard())
	})
}

// Conditions are those of the node: what was observed within the transition period.
// (kubelet eviction/helpers.go:nodeConditionsObservedSince)
func (p Pressure) Conditions(transition time.Duration, now time.Time) []corev1.NodeConditionType {
	var conditions []corev1.NodeConditionType
	for _, c := range PressureConditions {
		if at, seen := p.Seen[c]; seen && now.Sub(at) < transition {
			conditions = append(conditions, c)
		}
	}
	return conditions
}

// ReclaimsImages reports whether containers that are dead and images that nothing uses are
// removed before something is evicted for a signal. separate says that the runtime keeps them on
// a disk of its own. (kubelet eviction/helpers.go:buildSignalToNodeReclaimFuncs)
func ReclaimsImages(s Signal, separate bool) bool {
	switch s {
	case SignalImageFsAvailable, SignalImageFsInodesFree:
		return true
	case SignalNodeFsAvailable, SignalNodeFsInodesFree:
		return !separate
	case SignalMemoryAvailable, SignalPIDAvailable:
	}
	return false
}
