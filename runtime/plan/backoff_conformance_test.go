// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/hack/recordings"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

func TestConformanceBackoff(t *testing.T) {
	t.Parallel()
	recordings.Each(t, "backoff", func(t *testing.T, _ []byte, v *recordings.Backoff) {
		if len(v.Steps) == 0 {
			t.Errorf("%s has no steps", v.ID)
		}
		replay := backoffReplay{
			policy: plan.BackoffPolicy{
				Base:   seconds(v.BaseSeconds),
				Max:    seconds(v.MaxSeconds),
				Expire: seconds(v.ExpireSeconds),
			},
			// The pod that the vectors were recorded with.
			pod:     &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns1", UID: "uid-b"}},
			entries: map[string]*plan.Backoff{},
		}
		for i, step := range v.Steps {
			got := replay.step(v.Container, step)
			if diff := cmp.Diff(step.BackoffAnswer, got); diff != "" {
				t.Errorf("%s: step %d differs (-kubelet +ours):\n%s", v.ID, i, diff)
			}
		}
	})
}

type backoffReplay struct {
	policy  plan.BackoffPolicy
	pod     *corev1.Pod
	entries map[string]*plan.Backoff
}

func (r *backoffReplay) step(container string, in recordings.BackoffStep) recordings.BackoffAnswer {
	c := &corev1.Container{Name: container, Image: in.Image}
	now := time.Unix(0, 0).Add(seconds(in.Now))
	observed := &plan.PodStatus{}
	if in.CreatedFirst {
		observed.Containers = append(observed.Containers,
			plan.ContainerStatus{ID: "created", Name: container, State: plan.ContainerCreated})
	}
	observed.Containers = append(observed.Containers, plan.ContainerStatus{
		ID:         "old",
		Name:       container,
		State:      plan.ContainerState(in.State),
		FinishedAt: time.Unix(0, 0).Add(seconds(in.FinishedAt)),
	})

	key := plan.BackoffKey(r.pod, c)
	next, wait := r.policy.Check(r.pod, c, r.entries[key], observed, now)
	r.entries[key] = next
	out := recordings.BackoffAnswer{Events: []recordings.Entry{}, BackoffSeconds: next.Current.Seconds()}
	if wait != nil {
		out.InBackOff = true
		out.Message = wait.Message
		out.Error = "CrashLoopBackOff"
		out.Until = new(wait.Until.Sub(time.Unix(0, 0)).Seconds())
		out.Events = append(out.Events, recordings.Entry{
			"op": "Event", "object": r.pod.Name, "container": container, "fieldPath": fmt.Sprintf("spec.containers{%s}", container),
			"type": corev1.EventTypeWarning, "reason": "BackOff", "message": wait.EventMessage,
		})
	}
	if in.GCAfter {
		for key, entry := range r.entries {
			if r.policy.Expired(entry, now) {
				delete(r.entries, key)
			}
		}
	}
	return out
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second))
}
