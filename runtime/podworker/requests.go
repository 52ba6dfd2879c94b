// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/runtimeerror"
	"github.com/managedworkload/managedworkload/runtime/text"
)

// maxRequestMessage is what the API takes as the message of a request, in bytes.
const maxRequestMessage = 1024

// signalPatience is how long the runtime may take to say which process a container is.
const signalPatience = 10 * time.Second

var errNoSignals = errors.New("this shim sends no signals")

// advanceRequests decides what KillRequests ask now, notes it, and sends their signals. st is
// the pod's status, nil without one. It says whether anything was noted.
func (s *syncer) advanceRequests(ctx context.Context, d desired, observed *plan.PodStatus, st *corev1.PodStatus) bool {
	noted := s.mem.requestsNoted()
	if len(d.requests) == 0 && len(noted) == 0 {
		s.requests = plan.RequestProgress{}
		s.mem.keepRequestTimes(nil)
		return false
	}
	s.requests = plan.AdvanceRequests(plan.RequestInput{
		Pod: d.pod, Observed: observed, Status: st, TemplateHash: s.mem.templateHash(), Requests: d.requests, Before: noted,
		Times: s.mem.requestTimes(), Now: s.moment(), Differences: plan.AllDifferences(),
	})
	s.mem.keepRequestTimes(s.requests.Times)
	s.mem.owe(s.requests.Owed)
	news := s.mem.noteRequests(s.requests.Status)
	for _, signal := range s.requests.Signals {
		s.saver.saveAndWait() // a process that comes after this one does not send it again
		failed := ""
		if err := s.send(ctx, signal); err != nil {
			s.log.Info("Failed to send a signal", "container", signal.Container, "signal", signal.Signal, "reason", err.Error())
			failed = text.Cut(runtimeerror.Text(err), maxRequestMessage)
		}
		s.mem.noteRequests(plan.Signalled(s.mem.requestsNoted(), signal, failed))
	}
	if news {
		signal(s.news)
	}
	return news
}

// recallRequests takes what was noted of KillRequests for what they ask, until it is looked at;
// observed is nil where nothing is.
func (s *scope) recallRequests(d desired, observed *plan.PodStatus) {
	s.requests = plan.RecallRequests(d.requests, s.mem.requestsNoted(), observed)
}

// send sends a signal, and waits no longer than a deletion may.
func (s *syncer) send(ctx context.Context, signal plan.SignalRequest) error {
	ctx, cancel := context.WithTimeout(ctx, signalPatience)
	defer cancel()
	return s.cfg.Signal(ctx, signal.ContainerID, signal.Signal)
}

// forgiven are instances whose end counts for no back-off.
func (s *syncer) forgiven() []string {
	ids := slices.Collect(maps.Values(s.mem.owed()))
	for _, a := range s.requests.Asked {
		ids = append(ids, a.ContainerID)
	}
	return ids
}

// held says why containers do not run that requests keep stopped.
func (s *scope) held(syncing bool) map[string]plan.Reason {
	if !syncing {
		return nil
	}
	return s.requests.Held
}

// owed are containers that were ended on request or for a change and are to run again.
func (s *scope) owed(syncing bool) plan.Owed {
	if !syncing {
		return nil
	}
	return s.mem.owed()
}

// holdConditions are those about containers that requests keep stopped.
func (s *scope) holdConditions() []metav1.Condition {
	if len(s.requests.Held) == 0 {
		return nil
	}
	var messages []string
	for _, name := range slices.Sorted(maps.Keys(s.requests.Held)) {
		messages = append(messages, "container "+name+": "+s.requests.Held[name].Message)
	}
	return []metav1.Condition{condition(v1alpha1.ConditionHeld, true, v1alpha1.ReasonStopRequested, strings.Join(messages, "; "))}
}

// requestsNoted is what is noted about KillRequests. It is not changed.
func (m *memory) requestsNoted() []v1alpha1.NodeRequestStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rec.Status.Requests
}

// requestTimes are what waits of KillRequests are counted from. They are not changed.
func (m *memory) requestTimes() plan.RequestTimes {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rec.RequestTimes
}

func (m *memory) keepRequestTimes(times plan.RequestTimes) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !maps.Equal(m.rec.RequestTimes, times) {
		m.rec.RequestTimes = times
		m.touch()
	}
}

// noteRequests replaces what is noted about KillRequests, and says whether that is news.
func (m *memory) noteRequests(noted []v1alpha1.NodeRequestStatus) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if equality.Semantic.DeepEqual(m.rec.Status.Requests, noted) {
		return false
	}
	m.rec.Status.Requests = noted
	m.published.pending = true
	m.touch()
	return true
}
