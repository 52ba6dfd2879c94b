// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/fleet"
)

// Own is what the Pod that reserves requests for itself, as config/reserved has it.
var Own = fleet.Amount{MilliCPU: 1, Memory: 8 << 20}

// facts are what is known of a node.
type facts struct {
	// shares are its NodeWorkloads, the oldest first.
	shares []*fleet.Share
	// pod is the Pod that reserves there, nil where there is none; used reports whether any node
	// has one.
	pod  *Pod
	used bool
	// allocatable is what the node has for Pods; zero where that is not known.
	allocatable fleet.Amount
	// refused is why the API server did not take what is wanted now.
	refused string
	// late: there has been no Pod, or no answer, for long enough to say so.
	late bool
	// retries are what was not granted, and is not asked for all the time.
	retries retries
	// now is when this is decided.
	now time.Time
}

// decision is what the Pod should request, and what is said of each NodeWorkload: nil for
// nothing. Of those that are left out, what is said stays.
type decision struct {
	want fleet.Amount
	// lack are those that are asked for and not granted.
	lack []types.NamespacedName
	said map[types.UID]*fleet.Said
}

// decide counts the oldest NodeWorkloads first, in what is asked for and in what is granted. One
// that the node has no room for at all is left out of both: it would take the place of Pods that
// have room, and never get it.
func decide(f facts) decision {
	d := decision{want: Own, said: map[types.UID]*fleet.Said{}}
	have := Own
	for _, s := range f.shares {
		if s.Terminal() || !f.used {
			if s.Terminal() || f.late {
				d.said[s.UID] = nil
			}
			continue
		}
		next := d.want.Plus(s.Amount)
		fits := f.fits(next)
		asked := fits && !f.retries.wait(s.Key())
		if asked {
			d.want = next
		}
		granted := asked && f.grants(s, have)
		if granted {
			have = have.Plus(s.Amount)
		}
		if asked && !granted && s.Amount != (fleet.Amount{}) {
			d.lack = append(d.lack, s.Key())
		}
		if said, known := f.say(s, fits, granted); known {
			d.said[s.UID] = said
		}
	}
	return d
}

// fits reports whether the node has so much for Pods, as far as is known.
func (f facts) fits(all fleet.Amount) bool {
	return f.allocatable == fleet.Amount{} || all.Within(f.allocatable)
}

// grants reports whether a NodeWorkload has its part of what is granted, beside older ones.
func (f facts) grants(s *fleet.Share, older fleet.Amount) bool {
	return f.pod != nil && f.retries.trial != s.Key() && older.Plus(s.Amount).Within(f.pod.Granted)
}

// say is what is said of a NodeWorkload that fits on its node, or not, and is granted what it
// requests, or not. known is false while the kubelet may still answer.
func (f facts) say(s *fleet.Share, fits, granted bool) (said *fleet.Said, known bool) {
	missing := func(reason, message string) (*fleet.Said, bool) {
		return &fleet.Said{Status: metav1.ConditionFalse, Reason: reason, Message: message}, true
	}
	switch {
	case s.Amount == fleet.Amount{}:
		return &fleet.Said{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonNothingRequested, Message: "the template requests neither CPU nor memory"}, true
	case granted:
		return &fleet.Said{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReserved, Message: "the scheduler and the kubelet count what the template requests"}, true
	case !fits:
		return missing(v1alpha1.ReasonExceedsNode, "with what older NodeWorkloads of the node request, it is more than the node has for Pods")
	case f.pod == nil && f.late:
		return missing(v1alpha1.ReasonNoReservingPod, "the node has no Pod that reserves for NodeWorkloads")
	case f.pod == nil:
		return nil, false
	case f.retries.has(s.Key()):
		return missing(v1alpha1.ReasonResizeBackOff, fmt.Sprintf("the resize of Pod %s was not granted, and is asked for again with back-off: %s", f.pod.Name, f.retries.denied[s.Key()]))
	case f.refused != "":
		return missing(v1alpha1.ReasonResizeRefused, fmt.Sprintf("the API server refused the resize of Pod %s: %s", f.pod.Name, f.refused))
	case f.pod.Pending.Reason != "":
		return missing(f.pod.Pending.Reason, fmt.Sprintf("the resize of Pod %s waits: %s", f.pod.Name, f.pod.Pending.Message))
	case f.late:
		return missing(v1alpha1.ReasonResizePending, fmt.Sprintf("the kubelet did not answer the resize of Pod %s", f.pod.Name))
	}
	return nil, false
}
