// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// maxConditions is what the API takes.
const maxConditions = 32

// size is a bound on the parts of a status.
type size struct {
	// finished kills that are kept beside those under way, and kills in all.
	finished, kills int
	// text is the length of messages, in characters.
	text int
	// containers says that the statuses of containers are kept, details their
	// mounts, resources and last states.
	containers, details bool
	// left says what is missing.
	left string
}

// sizes are those of a status that shrinks, in their order.
var sizes = []size{
	{finished: 20, kills: 50, text: 1024, containers: true, details: true, left: "messages are cut to 1024 characters, and finished kills to the last 20"},
	{finished: 5, kills: 20, text: 128, containers: true, left: "messages are cut to 128 characters, finished kills to the last 5, and the containers' mounts, resources and last states are left out"},
	{finished: 1, kills: 10, text: 128, left: "messages are cut to 128 characters, finished kills to the last one, and the containers are left out"},
}

// Shrink returns what is left of a status that the API does not take because it is too
// large, with a condition that says so; the higher the level (from 1), the less. ok is
// false when there is no such level. previous is the status that the API has: the time of
// the condition is kept. Nothing in the result is shared with st.
func Shrink(st, previous *v1alpha1.NodeWorkloadStatus, level int, now time.Time) (shrunk *v1alpha1.NodeWorkloadStatus, ok bool) {
	if level < 1 || level > len(sizes) {
		return nil, false
	}
	s := sizes[level-1]
	shrunk = st.DeepCopy()
	shrunk.Message = truncateRunes(shrunk.Message, s.text)
	shrunk.Kills = s.cutKills(shrunk.Kills)
	if !s.containers {
		shrunk.InitContainerStatuses, shrunk.ContainerStatuses = nil, nil
	}
	s.cutContainers(shrunk.InitContainerStatuses)
	s.cutContainers(shrunk.ContainerStatuses)
	for i := range shrunk.Conditions {
		shrunk.Conditions[i].Message = truncateRunes(shrunk.Conditions[i].Message, s.text)
	}
	shrunk.Conditions = append(shrunk.Conditions[:min(len(shrunk.Conditions), maxConditions-1)], s.condition(st, previous, now))
	return shrunk, true
}

// condition says what is missing.
func (s size) condition(st, previous *v1alpha1.NodeWorkloadStatus, now time.Time) metav1.Condition {
	c := metav1.Condition{
		Type: v1alpha1.ConditionStatusTruncated, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonStatusTooLarge,
		Message:            "The API server does not take the whole status: " + s.left,
		ObservedGeneration: st.ObservedGeneration, LastTransitionTime: metav1.NewTime(now).Rfc3339Copy(),
	}
	if i := conditionIndex(previous.Conditions, c.Type); i >= 0 && previous.Conditions[i].Status == c.Status {
		c.LastTransitionTime = previous.Conditions[i].LastTransitionTime
	}
	return c
}

// cutKills keeps the kills under way and the newest finished ones.
func (s size) cutKills(kills []v1alpha1.KillRecord) []v1alpha1.KillRecord {
	var kept []v1alpha1.KillRecord
	finished := 0
	for _, k := range kills {
		if !isUnderWay(k) {
			finished++
		}
		if len(kept) == s.kills || (!isUnderWay(k) && finished > s.finished) {
			continue
		}
		k.Message, k.Error = truncateRunes(k.Message, s.text), truncateRunes(k.Error, s.text)
		kept = append(kept, k)
	}
	return kept
}

func (s size) cutContainers(containers []corev1.ContainerStatus) {
	for i := range containers {
		c := &containers[i]
		if !s.details {
			c.VolumeMounts, c.Resources, c.AllocatedResources, c.AllocatedResourcesStatus = nil, nil, nil, nil
			c.LastTerminationState, c.User = corev1.ContainerState{}, nil
		}
		for _, state := range []*corev1.ContainerState{&c.State, &c.LastTerminationState} {
			if state.Waiting != nil {
				state.Waiting.Message = truncateRunes(state.Waiting.Message, s.text)
			}
			if state.Terminated != nil {
				state.Terminated.Message = truncateRunes(state.Terminated.Message, s.text)
			}
		}
	}
}
