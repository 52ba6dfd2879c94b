// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/admission"
	"github.com/managedworkload/managedworkload/controllers/fleet"
	"github.com/managedworkload/managedworkload/controllers/rollout"
)

// facts are what the status of a ManagedWorkload is computed from.
type facts struct {
	generation int64
	deleting   bool
	verdict    admission.Verdict
	// grace is what the annotation for a deletion asks for, in seconds, nil for nothing,
	// and graceProblem what is wrong with it.
	grace        *int64
	graceProblem string
	// hash identifies what admission made of the current template. answer is what it would
	// make of that now, and held how many nodes do not get it therefore.
	hash string
	// update and current are the revision of the template and the one rolled out last.
	update, current string
	// strategy and deadline are those of the spec, and rolled is how far the roll-out is.
	strategy rollout.Strategy
	deadline time.Duration
	rolled   rollout.Tally
	// rolledOut: the update was rolled out before.
	rolledOut bool
	// waits are since when nodes wait.
	waits  rollout.Waits
	answer admission.Answer
	held   int
	// overQuota is why a quota has no room for what nodes wait for, "" where none waits for it.
	overQuota string
	// objects are those that the template refers to, nil where that is not known.
	objects *objectsAsked
	// backoff is that of the current spec.
	backoff *v1alpha1.RestartBackoff
	// desired are the nodes that the template admits, by name.
	desired []nodeView
	// tolerated are the others that keep what they run, and get the updates of it.
	tolerated []nodeView
	// leaving are nodes that have a NodeWorkload and should have none, or whose
	// Node is gone. While deleting, all of them.
	leaving []nodeView
	// misscheduled is how many nodes run it that should not.
	misscheduled []string
	// drained are the nodes that would be desired, were they not drained.
	drained []string
	// progress is what was remembered of it.
	progress rollout.Progress
	now      time.Time
}

// time is now as a condition carries it.
func (f *facts) time() metav1.Time { return metav1.NewTime(f.now.Truncate(time.Second)) }

// completed is how many of the desired nodes whose shims respond ran all containers to success.
func (f *facts) completed() (n int) {
	for i := range f.desired {
		if d := &f.desired[i]; d.shim.Responding() && d.share != nil && d.share.Phase == corev1.PodSucceeded {
			n++
		}
	}
	return n
}

// nodeView is what is known about a node and its NodeWorkload.
type nodeView struct {
	name string
	// share is nil when there is no NodeWorkload.
	share *fleet.Share
	shim  fleet.ShimState
	// conflict names an object in the place of the NodeWorkload.
	conflict string
	// nodeGone: there is no Node of that name.
	nodeGone bool
	// waits is why the node does not get the update revision now, "" if it has or gets it.
	waits rollout.Reason
	// refused is why its last change failed, "" if it did not.
	refused string
	// replacedAt is when what was evicted is made again; the zero time is at once.
	replacedAt time.Time
	// awaitsNode: what a shutdown ended is made again when the node is back.
	awaitsNode bool
}

// standing is how far a node is.
type standing int

const (
	standingUnreachable standing = iota
	standingConflict
	standingUpdating
	standingNotReady
	// standingYoung: ready, but not for minReadySeconds yet.
	standingYoung
	standingReady
	standingCompleted
	standingFailed
)

// standing derives how far a node is with what f calls for. Only what the shim
// reports about the current spec counts, or about the one that a person lets it keep.
func (n *nodeView) standing(f *facts) standing {
	switch {
	case n.conflict != "":
		return standingConflict
	case !n.shim.Responding():
		return standingUnreachable
	case !n.updated(f) && !n.keeps() && !n.begins(f):
		return standingUpdating
	case n.share.Phase == corev1.PodSucceeded:
		return standingCompleted
	case n.share.Phase == corev1.PodFailed && !n.share.Evicted:
		return standingFailed
	case n.ready() && !n.available(f):
		return standingYoung
	case n.ready():
		return standingReady
	}
	return standingNotReady
}

// keeps reports whether a node has carried out what a person lets it keep.
func (n *nodeView) keeps() bool {
	return n.waits.Holds() && n.share != nil && !n.share.Deleting() && n.share.Current()
}

// begins reports whether a node has what it should run, and nothing of it runs yet, nor did
// anything before: it is not ready, whatever its first start lacks, an image as well as a volume.
func (n *nodeView) begins(f *facts) bool {
	return n.given(f) && n.share.TemplateHash == "" && n.share.Phase == corev1.PodPending
}

// available reports whether a node is ready for long enough, with whatever revision.
func (n *nodeView) available(f *facts) bool {
	return n.ready() && !n.share.ReadySince.Add(f.strategy.MinReady).After(f.now)
}

// given reports whether the shim knows that it should run what f calls for.
func (n *nodeView) given(f *facts) bool {
	return n.share != nil && !n.share.Deleting() && n.share.ObservedGeneration == n.share.Generation && n.share.SpecHash == f.hash &&
		sameBackoff(n.share.RestartBackoff, f.backoff)
}

func (n *nodeView) updated(f *facts) bool { return n.given(f) && n.share.Current() }

func (n *nodeView) ready() bool {
	return n.share != nil && n.share.Ready()
}

func sameBackoff(a, b *v1alpha1.RestartBackoff) bool {
	return a == b || equality.Semantic.DeepEqual(a, b)
}

// tally counts nodes by how far they are.
type tally struct {
	desired, current, updated, ready, available int
	// by are the desired nodes, and the tolerated ones that are being updated: these take up
	// budget, too.
	by map[standing][]*nodeView
	// without and silent are the unreachable nodes: that never had a shim, and
	// whose shim does not respond any more.
	without, silent []string
	// ending are NodeWorkloads that go and whose shims respond; stuck those that
	// wait for a shim or a Node.
	ending, stuck []string
}

func (f *facts) count() tally {
	t := tally{desired: len(f.desired), by: map[standing][]*nodeView{}}
	for i := range f.desired {
		n := &f.desired[i]
		s := n.standing(f)
		t.by[s] = append(t.by[s], n)
		if n.share != nil {
			t.current++
		}
		switch {
		case s == standingConflict:
		case n.shim.Reason == v1alpha1.ReasonShimNotFound:
			t.without = append(t.without, n.name)
		case s == standingUnreachable:
			t.silent = append(t.silent, n.name+inBrackets(n.silentSince()))
		default:
			t.countReachable(f, n)
		}
	}
	for i := range f.tolerated {
		if n := &f.tolerated[i]; n.standing(f) == standingUpdating && !n.share.Deleting() {
			t.by[standingUpdating] = append(t.by[standingUpdating], n)
		}
	}
	for i := range f.leaving {
		if n := &f.leaving[i]; n.shim.Responding() && !n.nodeGone {
			t.ending = append(t.ending, n.name)
		} else {
			t.stuck = append(t.stuck, n.name)
		}
	}
	return t
}

func (t *tally) countReachable(f *facts, n *nodeView) {
	if n.updated(f) {
		t.updated++
	}
	if n.ready() {
		t.ready++
	}
	if n.available(f) {
		t.available++
	}
}

// held are the nodes that a person lets keep another revision, by why.
func (t *tally) held() map[rollout.Reason][]string {
	held := map[rollout.Reason][]string{}
	for _, list := range t.by {
		for _, n := range list {
			if n.waits.Holds() {
				held[n.waits] = append(held[n.waits], n.name)
			}
		}
	}
	return held
}

func (t *tally) unreachable() int { return len(t.without) + len(t.silent) }

func (t *tally) reachable() int { return t.desired - t.unreachable() }

func sortNodes(list []nodeView) {
	slices.SortFunc(list, func(a, b nodeView) int { return cmp.Compare(a.name, b.name) })
}
