// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"context"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/status"
)

// A report can be computed any number of times: it says which events are due, and
// sends none.
func TestComputeReport(t *testing.T) {
	pod := template.Pod(workload("a", generation(3)))
	pod.Spec.ActiveDeadlineSeconds = ptr.To[int64](60)
	now := time.Unix(1000, 0)
	since := func(d time.Duration, phase corev1.PodPhase) *corev1.PodStatus {
		return &corev1.PodStatus{Phase: phase, StartTime: &metav1.Time{Time: now.Add(-d)}}
	}
	tests := map[string]struct {
		previous   *corev1.PodStatus
		inProgress bool
		resize     resize
		ending     bool
		wantDue    []string
		wantResize resize
	}{
		"nothing happens":            {previous: since(time.Second, corev1.PodRunning)},
		"the deadline is over":       {previous: since(time.Hour, corev1.PodRunning), wantDue: []string{"DeadlineExceeded"}},
		"it was announced before":    {previous: &corev1.PodStatus{Phase: corev1.PodFailed, Reason: "DeadlineExceeded"}},
		"it had ended before":        {previous: since(time.Hour, corev1.PodFailed)},
		"a resize begins":            {inProgress: true, wantDue: []string{"ResizeStarted"}, wantResize: resize{generation: 3}},
		"a resize continues":         {inProgress: true, resize: resize{generation: 3}, wantResize: resize{generation: 3}},
		"a resize fails":             {inProgress: true, resize: resize{generation: 3, failed: "no"}, wantDue: []string{"ResizeError"}, wantResize: resize{generation: 3, failed: "no", reported: "no"}},
		"it fails as before":         {inProgress: true, resize: resize{generation: 3, failed: "no", reported: "no"}, wantResize: resize{generation: 3, failed: "no", reported: "no"}},
		"another resize begins":      {inProgress: true, resize: resize{generation: 2, failed: "no"}, wantDue: []string{"ResizeStarted"}, wantResize: resize{generation: 3}},
		"a resize is over":           {resize: resize{generation: 3}, wantDue: []string{"ResizeCompleted"}},
		"its workload ends":          {resize: resize{generation: 3}, inProgress: true, ending: true},
		"the first report of all":    {},
		"a deadline without a start": {previous: &corev1.PodStatus{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			v := view{
				Input:   status.Input{Pod: pod, Previous: tt.previous, Observed: &plan.PodStatus{}, Now: now},
				wanted:  pod,
				syncing: !tt.ending, inProgress: tt.inProgress && !tt.ending, resize: tt.resize,
			}
			if tt.previous != nil && tt.previous.StartTime != nil {
				v.active = now.Sub(tt.previous.StartTime.Time)
			}
			for range 2 {
				r := v.compute()
				var due []string
				for _, n := range r.due {
					due = append(due, n.Reason)
				}
				if !slices.Equal(due, tt.wantDue) || r.resize != tt.wantResize {
					t.Errorf("due %q, resize %+v, want %q, %+v", due, r.resize, tt.wantDue, tt.wantResize)
				}
			}
		})
	}
}

// A deadline that passes during a long sync is announced once, however often the worker
// is woken.
func TestDeadlineDuringALongSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		n.syncing = func(_ context.Context, r plan.SyncRequest) plan.SyncOutcome {
			n.mu.Lock()
			n.run(r)
			n.mu.Unlock()
			time.Sleep(time.Minute) // such as the pull of another image
			return plan.SyncOutcome{}
		}
		p := n.start(t)
		p.Update(workload("a", func(nw *template.Workload) {
			nw.Template.Spec.ActiveDeadlineSeconds = ptr.To[int64](10)
		}))
		for range 50 {
			n.settle(time.Second)
			p.Wake("a")
		}
		n.settle(time.Minute)
		log := slices.DeleteFunc(n.log(), func(c string) bool {
			return !strings.HasPrefix(c, "publish ") && !strings.HasPrefix(c, "event ")
		})
		isEvent := func(c string) bool {
			return c == "event DeadlineExceeded: Pod was active on the node longer than the specified deadline"
		}
		count := len(slices.DeleteFunc(slices.Clone(log), func(c string) bool { return !isEvent(c) }))
		first := slices.IndexFunc(log, isEvent)
		if count != 1 || first < 1 || !strings.HasPrefix(log[first-1], "publish ") {
			t.Errorf("%d events DeadlineExceeded, the first at %d of %q; want one, right after a status", count, first, log)
		}
	})
}

// A message is cut at a character: of half a one the API would make another, and the
// status would never equal what is there.
func TestLongConditionIsCutAtACharacter(t *testing.T) {
	c := condition(v1alpha1.ConditionKillFailing, true, failedKillPodReason, "x"+strings.Repeat("ä", maxConditionMessage))
	if want := "x" + strings.Repeat("ä", maxConditionMessage/2-1); c.Message != want {
		t.Errorf("%d bytes that end with %q, want %d", len(c.Message), c.Message[len(c.Message)-4:], len(want))
	}
}
