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

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// backoffVector is a line of backoff.
type backoffVector struct {
	ID            string        `json:"id"`
	Container     string        `json:"container"`
	BaseSeconds   float64       `json:"baseSeconds"`
	MaxSeconds    float64       `json:"maxSeconds"`
	ExpireSeconds float64       `json:"expireSeconds"`
	Steps         []backoffStep `json:"steps"`
}

type backoffStep struct {
	backoffStepInput
	backoffStepOutput
}

type backoffStepInput struct {
	Now          float64 `json:"now"`
	FinishedAt   float64 `json:"finishedAt"`
	State        string  `json:"state"`
	Image        string  `json:"image"`
	CreatedFirst bool    `json:"createdFirst"`
	GCAfter      bool    `json:"gcAfter"`
}

type backoffStepOutput struct {
	InBackOff      bool           `json:"inBackOff"`
	Message        string         `json:"message"`
	Error          string         `json:"error"`
	Until          float64        `json:"until"`
	BackoffSeconds float64        `json:"backoffSeconds"`
	Events         []backoffEvent `json:"events"`
}

type backoffEvent struct {
	Op        string `json:"op"`
	Object    string `json:"object"`
	Container string `json:"container"`
	FieldPath string `json:"fieldPath"`
	Type      string `json:"type"`
	Reason    string `json:"reason"`
	Message   string `json:"message"`
}

func TestConformanceBackoff(t *testing.T) {
	t.Parallel()
	eachVector(t, "backoff.jsonl.gz", func(t *testing.T, _ []byte, v backoffVector) {
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
			got := replay.step(v.Container, step.backoffStepInput)
			if diff := cmp.Diff(step.backoffStepOutput, got); diff != "" {
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

func (r *backoffReplay) step(container string, in backoffStepInput) backoffStepOutput {
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
	out := backoffStepOutput{Events: []backoffEvent{}, BackoffSeconds: next.Current.Seconds()}
	if wait != nil {
		out.InBackOff = true
		out.Message = wait.Message
		out.Error = "CrashLoopBackOff"
		out.Until = wait.Until.Sub(time.Unix(0, 0)).Seconds()
		out.Events = append(out.Events, backoffEvent{
			Op:        "Event",
			Object:    r.pod.Name,
			Container: container,
			FieldPath: fmt.Sprintf("spec.containers{%s}", container),
			Type:      corev1.EventTypeWarning,
			Reason:    "BackOff",
			Message:   wait.EventMessage,
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
