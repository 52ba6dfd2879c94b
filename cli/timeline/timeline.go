// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/cli/ends"
)

// Timeline is what happened to the containers of a workload.
type Timeline struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	Now       time.Time `json:"now"`
	// Lanes by node and container.
	Lanes []Lane `json:"lanes"`
	// What the lanes do not have.
	ends.Omitted
}

// Lane is one container of one node.
type Lane struct {
	Node      string `json:"node"`
	Container string `json:"container"`
	// Marks are its kills and exits, the oldest first.
	Marks []Mark `json:"marks"`
}

// Stage is a part of a kill.
type Stage string

// The stages of a kill, in their order.
const (
	// StageHook: the preStop hook runs.
	StageHook Stage = "preStop"
	// StageWait: a sidecar waits for its turn.
	StageWait Stage = "wait"
	// StageStop: the stop signal was sent, and the container has not exited.
	StageStop Stage = "stop"
	// StageLeft is the rest of the grace period, after the end.
	StageLeft Stage = "left"
)

// Segment is how long a stage took.
type Segment struct {
	Stage Stage     `json:"stage"`
	From  time.Time `json:"from"`
	To    time.Time `json:"to"`
}

// Kind is what a mark stands for.
type Kind string

// The kinds of marks.
const (
	// KindGraceful: the container left within its time.
	KindGraceful Kind = "graceful"
	// KindForced: SIGKILL.
	KindForced Kind = "forced"
	// KindUnderWay: the kill has not ended.
	KindUnderWay Kind = "underWay"
	// KindUnclear: the kill failed, the container had left before it, or how it ended is not known.
	KindUnclear Kind = "unclear"
	// KindExit: no kill caused it.
	KindExit Kind = "exit"
)

// Mark is a kill or an exit.
type Mark struct {
	Kind    Kind                 `json:"kind"`
	Time    time.Time            `json:"time"`
	Trigger v1alpha1.KillTrigger `json:"trigger,omitempty"`
	// Cause and Outcome are why and how in a few words; Words is all of it.
	Cause   string   `json:"cause"`
	Outcome string   `json:"outcome"`
	Words   []string `json:"words"`
	Hook    string   `json:"hook,omitempty"`
	Signal  string   `json:"signal,omitempty"`
	// The grace period of a kill in seconds, how much of it was used, and what was left.
	GraceSeconds int64     `json:"graceSeconds"`
	UsedSeconds  int64     `json:"usedSeconds"`
	LeftSeconds  int64     `json:"leftSeconds"`
	Segments     []Segment `json:"segments,omitempty"`
}

// New sorts ends into lanes. left is what they leave out.
func New(namespace, name string, all []ends.End, left ends.Omitted, now time.Time) *Timeline {
	t := &Timeline{Namespace: namespace, Name: name, Now: now, Lanes: []Lane{}, Omitted: left}
	type key struct{ node, container string }
	at := map[key]int{}
	for i := len(all) - 1; i >= 0; i-- { // the oldest first
		e := &all[i]
		k := key{e.Node, e.Container}
		if _, known := at[k]; !known {
			at[k] = len(t.Lanes)
			t.Lanes = append(t.Lanes, Lane{Node: e.Node, Container: e.Container})
		}
		lane := &t.Lanes[at[k]]
		lane.Marks = append(lane.Marks, markOf(e, now))
	}
	slices.SortFunc(t.Lanes, func(a, b Lane) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Container, b.Container))
	})
	return t
}

func markOf(e *ends.End, now time.Time) Mark {
	m := Mark{Kind: KindExit, Time: e.Time.UTC(), Words: e.Words}
	k := e.Kill
	if k == nil {
		m.Cause, m.Outcome = "ended by itself", e.Exit.Summary
		if e.Restarts > 0 {
			m.Outcome += fmt.Sprintf("; the last of %d restarts", e.Restarts)
		}
		return m
	}
	m.Kind, m.Trigger, m.Cause, m.Outcome = kindOf(k), k.Trigger, ends.Cause(k), ends.Outcome(k)
	m.Hook = ends.Hook(k)
	if ends.SignalSent(k) {
		m.Signal = k.StopSignal
	}
	m.GraceSeconds, m.UsedSeconds, m.LeftSeconds = k.Grace.Seconds, k.Grace.UsedSeconds, ends.Left(k)
	if m.Kind == KindUnderWay {
		m.UsedSeconds = max(int64(now.Sub(m.Time)/time.Second), 0)
		m.LeftSeconds = ends.Remaining(m.GraceSeconds, m.UsedSeconds)
	}
	m.Segments = segments(k, m.Time, now)
	return m
}

func kindOf(k *v1alpha1.KillRecord) Kind {
	switch {
	case k.Phase != v1alpha1.KillPhaseDone:
		return KindUnderWay
	case k.Outcome == v1alpha1.KillOutcomeForced:
		return KindForced
	case k.Outcome == v1alpha1.KillOutcomeGraceful:
		return KindGraceful
	}
	return KindUnclear
}

// clockTolerance is what rounding makes of two times that agree.
const clockTolerance = 2 * time.Second

// leastWait is the shortest time that counts as a wait for other containers.
const leastWait = time.Second

// segments are the stages of a kill that began at a time. The record's times are those of
// the node's clock, which may have been set meanwhile: they count as far as the seconds
// agree that the shim counted itself.
func segments(k *v1alpha1.KillRecord, begun, now time.Time) []Segment {
	at := func(t time.Time) time.Time { return begun.Add(t.Sub(k.StartTime.Time)) }
	end := now
	if k.Phase == v1alpha1.KillPhaseDone {
		used := time.Duration(k.Grace.UsedSeconds) * time.Second
		end = begun.Add(used)
		if k.FinishTime != nil {
			if took := k.FinishTime.Sub(k.StartTime.Time); took >= 0 && took < used+clockTolerance {
				end = begun.Add(took)
			}
		}
	}
	stop := end
	if k.StopTime != nil {
		stop = clamp(at(k.StopTime.Time), begun, end)
	}
	hook := begun
	if h := k.PreStop; h != nil && h.Outcome != v1alpha1.PreStopSkipped {
		hook = stop
		if h.Outcome != "" && stop.Sub(begun) > time.Duration(h.Seconds+1)*time.Second {
			hook = begun.Add(time.Duration(h.Seconds) * time.Second)
		}
	}
	if stop.Sub(hook) < leastWait { // between two steps of the shim, not for another container
		stop = hook
	}
	if !ends.SignalSent(k) { // what the runtime took to answer is no stage
		end = stop
	}
	deadline := begun.Add(time.Duration(k.Grace.Seconds) * time.Second)
	all := []Segment{{StageHook, begun, hook}, {StageWait, hook, stop}, {StageStop, stop, end}, {StageLeft, end, deadline}}
	return slices.DeleteFunc(all, func(s Segment) bool { return !s.To.After(s.From) })
}

func clamp(t, least, most time.Time) time.Time {
	switch {
	case t.Before(least):
		return least
	case t.After(most):
		return most
	}
	return t
}
