// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package ends

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// noContainer stands for the name of a container in a kill of processes that belong to none.
const noContainer = "(pod)"

// End is the end of a container, or a kill that is under way: one of Kill and Exit is set.
type End struct {
	Node         string `json:"node"`
	NodeWorkload string `json:"nodeWorkload"`
	Container    string `json:"container"`
	// Time is when the kill began, or when the container exited; by the manager's clock
	// where the node's is wrong.
	Time metav1.MicroTime `json:"time"`
	// Summary is the end in a few words, Words are it in sentences.
	Summary string   `json:"summary"`
	Words   []string `json:"words"`
	// Kill is the record as the shim wrote it.
	Kill *v1alpha1.KillRecord `json:"kill,omitempty"`
	// Exit is an end that no kill of the shim caused.
	Exit *v1alpha1.ContainerExit `json:"exit,omitempty"`
	// Restarts is how often the container of an exit was restarted. Of its exits only the
	// last one is kept.
	Restarts int32 `json:"restarts,omitempty"`
}

// key is what a kill is known by: NodeWorkload and ManagedWorkload both have it.
type key struct{ nodeWorkload, id string }

// Collect returns the ends that a ManagedWorkload, which may be nil, and its NodeWorkloads
// report, newest first.
func Collect(mw *v1alpha1.ManagedWorkload, nodes []v1alpha1.NodeWorkload) []End {
	var all []End
	at := map[key]int{}
	for i := range nodes {
		nw := &nodes[i]
		for _, kill := range nw.Status.Kills {
			at[key{nw.Name, kill.ID}] = len(all)
			all = append(all, killed(nw.Spec.NodeName, nw.Name, kill, nil))
		}
		if exit := nw.Status.LastExit; exit != nil {
			all = append(all, exited(nw, exit))
		}
	}
	if mw != nil {
		for _, recent := range mw.Status.RecentKills {
			if i, known := at[key{recent.NodeWorkload, recent.ID}]; !known {
				all = append(all, killed(recent.NodeName, recent.NodeWorkload, recent.KillRecord, recent.ObservedTime))
			} else if recent.ObservedTime != nil {
				all[i].Time = *recent.ObservedTime
			}
		}
	}
	slices.SortStableFunc(all, newestFirst)
	return all
}

func newestFirst(a, b End) int {
	return cmp.Or(b.Time.Compare(a.Time.Time), cmp.Compare(b.sequence(), a.sequence()),
		cmp.Compare(a.Node, b.Node), cmp.Compare(a.Container, b.Container))
}

func (e *End) sequence() int64 {
	if e.Kill == nil {
		return 0
	}
	return e.Kill.Sequence
}

func killed(node, nodeWorkload string, kill v1alpha1.KillRecord, observed *metav1.MicroTime) End {
	at := kill.StartTime
	if observed != nil {
		at = *observed
	}
	return End{
		Node: node, NodeWorkload: nodeWorkload, Container: cmp.Or(kill.Container, noContainer), Time: at,
		Summary: Cause(&kill) + ", " + Outcome(&kill), Words: killWords(&kill), Kill: &kill,
	}
}

func exited(nw *v1alpha1.NodeWorkload, exit *v1alpha1.ContainerExit) End {
	e := End{
		Node: nw.Spec.NodeName, NodeWorkload: nw.Name, Container: exit.Container,
		Summary: exitSummary(exit), Words: []string{"No kill of the shim caused this."}, Exit: exit,
	}
	if exit.FinishTime != nil {
		e.Time = metav1.NewMicroTime(exit.FinishTime.Time)
	}
	if e.Restarts = restarts(nw, exit.Container); e.Restarts > 0 {
		e.Words = append(e.Words, fmt.Sprintf("The container was restarted %d times; earlier exits are not kept.", e.Restarts))
	}
	return e
}

// restarts returns how often a container of a NodeWorkload was restarted.
func restarts(nw *v1alpha1.NodeWorkload, name string) int32 {
	for _, status := range slices.Concat(nw.Status.ContainerStatuses, nw.Status.InitContainerStatuses) {
		if status.Name == name {
			return status.RestartCount
		}
	}
	return 0
}

// Filter selects ends. Its zero value selects all.
type Filter struct {
	Node, Container string
	// Since is the oldest time. An end whose time is not known passes.
	Since time.Time
	// Limit is how many of the newest pass; 0 for all.
	Limit int
}

// Select returns the ends that pass, and how many Since and the limit keep back.
func (f Filter) Select(all []End) (selected []End, left Omitted) {
	selected = []End{}
	for _, e := range all {
		switch {
		case f.Node != "" && f.Node != e.Node, f.Container != "" && f.Container != e.Container:
		case !e.Time.IsZero() && e.Time.Time.Before(f.Since):
			left.Older++
		case f.Limit > 0 && len(selected) == f.Limit:
			left.More++
		default:
			selected = append(selected, e)
		}
	}
	return selected, left
}
