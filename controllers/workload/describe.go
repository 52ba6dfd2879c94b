// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/controllers/rollout"
)

// maxDescribed is how many nodes a message describes.
const maxDescribed = 3

// notReadyMessage is why nodes are not ready: "n1: 0/1 ready, readiness probe failing".
func notReadyMessage(list []*nodeView) string {
	var parts []string
	for _, n := range list[:min(len(list), maxDescribed)] {
		parts = append(parts, n.name+": "+n.obstacle())
	}
	return strings.Join(parts, "; ") + andMore(len(list)-maxDescribed)
}

// failedMessage is how the containers ended on nodes where they will not be
// restarted: "Failed on n1, exit code 3; will not restart".
func failedMessage(list []*nodeView) string {
	var parts []string
	for _, n := range list[:min(len(list), maxDescribed)] {
		parts = append(parts, n.name+", "+n.share.Failure)
	}
	return "Failed on " + strings.Join(parts, "; on ") + andMore(len(list)-maxDescribed) + "; will not restart"
}

// youngMessage names nodes that are ready and not yet available.
func youngMessage(list []*nodeView) string {
	var parts []string
	for _, n := range list {
		parts = append(parts, n.name+inBrackets(since(n.share.ReadySince)))
	}
	return "ready for less than minReadySeconds: " + names(parts)
}

// readyMessage says with what the nodes are ready.
func readyMessage(f *facts, t *tally) string {
	held := heldMessage(f, t)
	if held == "" {
		return nodes(t.reachable()) + " ready with the current template"
	}
	return fmt.Sprintf("%s ready, %d of them with the current template; %s", nodes(t.reachable()), t.updated, held)
}

// heldMessage names the nodes that a person lets keep another revision, "" for none.
func heldMessage(f *facts, t *tally) string {
	held := t.held()
	return with(neverMessage(held, t.desired), waitingMessage(held, f.waits))
}

// neverMessage says that a strategy lets no node have the update.
func neverMessage(held map[rollout.Reason][]string, desired int) string {
	switch {
	case desired == 0:
		return ""
	case len(held[rollout.WaitNodeSelector]) == desired:
		return "no node matches updateStrategy.rollingUpdate.nodeSelector"
	case len(held[rollout.WaitPartition]) == desired:
		return "updateStrategy.rollingUpdate.partition keeps every node"
	}
	return ""
}

// rollingMessage says how far a roll-out is: what keeps nodes that are being updated, and
// why others wait.
func rollingMessage(f *facts, t *tally) string {
	var busy, refused []*nodeView
	waiting := t.held()
	for _, n := range t.by[standingUpdating] {
		switch {
		case n.waits != "" && !n.waits.Holds():
			waiting[n.waits] = append(waiting[n.waits], n.name)
		case n.waits == "" && n.refused != "":
			refused = append(refused, n)
		case n.waits == "":
			busy = append(busy, n)
		}
	}
	message := fmt.Sprintf("%d of %d reachable nodes run the current template", t.updated, t.reachable())
	if t.desired == 0 {
		message = with(noNodesMessage(f), misscheduledMessage(f))
	}
	message = with(with(message, refusedMessage(refused)), busyMessage(busy))
	if late := slices.Concat(t.by[standingNotReady], t.by[standingYoung], t.by[standingFailed]); len(late) > 0 {
		message = with(message, "not available: "+describeAll(late))
	}
	return with(with(message, waitingMessage(waiting, f.waits)), f.overQuota)
}

// busyMessage says what keeps nodes from running what they should.
func busyMessage(list []*nodeView) string {
	if len(list) == 0 {
		return ""
	}
	return "updating " + describeAll(list)
}

// refusedMessage says why nodes could not be changed.
func refusedMessage(list []*nodeView) string {
	if len(list) == 0 {
		return ""
	}
	return fmt.Sprintf("the change of %s failed: %s: %s", nodes(len(list)), names(namesOf(list)), list[0].refused)
}

func describeAll(list []*nodeView) string {
	var parts []string
	for _, n := range list[:min(len(list), maxDescribed)] {
		parts = append(parts, n.name+inBrackets(n.obstacle()))
	}
	return strings.Join(parts, ", ") + andMore(len(list)-maxDescribed)
}

// obstacle is what keeps a node from being available; "" when nothing is known.
func (n *nodeView) obstacle() string {
	switch {
	case n.share == nil:
		return ""
	case n.share.Evicted:
		return n.evictedMessage()
	case n.share.Waiting.Reason != "":
		return listed(with(n.share.Waiting.Reason, n.share.Waiting.Message), since(n.share.LateSince))
	case n.share.Complaint != "":
		return listed(n.share.Complaint, since(n.share.LateSince))
	}
	return ""
}

// since is since when something is so, "" if that is not known. It does not change as long
// as it is so: a message that did would be a write at every look.
func since(t time.Time) string { return rollout.Wait{Since: t}.String() }

// silentSince is since when the shim of a node does not respond, as far as its NodeWorkload
// says so.
func (n *nodeView) silentSince() string {
	if n.share == nil || n.share.Shim == nil || n.share.Shim.Status != metav1.ConditionFalse {
		return ""
	}
	return since(n.share.Shim.LastTransitionTime.Time)
}

func inBrackets(text string) string {
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}

// listed joins two parts of a sentence, either of which may be empty.
func listed(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + ", " + b
}

// waitingMessage says which nodes wait for what, and since when nodes do.
func waitingMessage(waiting map[rollout.Reason][]string, waits rollout.Waits) string {
	var reasons []rollout.Reason
	for reason := range waiting {
		reasons = append(reasons, reason)
	}
	slices.Sort(reasons)
	message := ""
	for _, reason := range reasons {
		list := waiting[reason]
		slices.Sort(list)
		verb := "wait"
		if len(list) == 1 {
			verb = "waits"
		}
		message = with(message, fmt.Sprintf("%s %s (%s): %s", nodes(len(list)), verb, listed(string(reason), waits[reason].String()), names(list)))
	}
	return message
}

func misscheduledMessage(f *facts) string {
	if len(f.misscheduled) == 0 {
		return ""
	}
	return "still running where the template does not match any more: " + names(f.misscheduled)
}

// noNodesMessage says why there are no desired nodes.
func noNodesMessage(f *facts) string {
	if len(f.drained) > 0 {
		return "Every node that matches the template's placement is drained: " + names(f.drained)
	}
	return "No node matches the template's placement"
}

// drainedMessage names the nodes that a drain keeps from running the workload.
func drainedMessage(f *facts) string {
	if len(f.drained) == 0 {
		return ""
	}
	return "drained: " + names(f.drained)
}

func namesOf(list []*nodeView) []string {
	var all []string
	for _, n := range list {
		all = append(all, n.name)
	}
	return all
}
