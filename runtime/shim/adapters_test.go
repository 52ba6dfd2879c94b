// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/executor"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// stubborn is a runtime that stops nothing.
type stubborn struct{ garbageRuntime }

func (*stubborn) StopContainer(context.Context, string, int64) error {
	return status.Error(codes.Unknown, "it does not want to")
}

func (*stubborn) StopSandbox(context.Context, string) error {
	return status.Error(codes.Unknown, "nor does the sandbox")
}

func (*stubborn) ImageRef(context.Context, string) (string, error) {
	return "", status.Error(codes.Unknown, "the images are gone")
}

// A kill that fails in a sync is reported to the worker with its target, and nothing
// else is.
func TestKillErrorOfASync(t *testing.T) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: "a", Namespace: "ns", Name: "web"},
		Spec:       corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways, Containers: []corev1.Container{{Name: "c", Image: "image"}}},
	}
	observed := &plan.PodStatus{
		Sandboxes:  []plan.SandboxStatus{{ID: "s", State: plan.SandboxReady}},
		Containers: []plan.ContainerStatus{{ID: "c0", Name: "c", State: plan.ContainerRunning, SandboxID: "s"}},
	}
	tests := map[string]struct {
		actions plan.Actions
		want    string
		wantErr bool
	}{
		"nothing to kill": {actions: plan.Actions{SandboxID: "s"}},
		"a container": {
			actions: plan.Actions{SandboxID: "s", ContainersToKill: []plan.Kill{
				plan.DecideKill(pod, &observed.Containers[0], plan.Kill{Trigger: v1alpha1.TriggerLivenessProbe}, nil, plan.AllDifferences()),
			}},
			want: "c: ", wantErr: true,
		},
		"a start that fails is no kill": {actions: plan.Actions{SandboxID: "s", ContainersToStart: []int{0}}, wantErr: true},
		"the pod":                       {actions: plan.Actions{KillPod: true, Trigger: v1alpha1.TriggerWorkloadFinished}, want: "a: ", wantErr: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			e := executor.New(executor.Config{Runtime: &stubborn{}, Events: noEvents{}, Kills: noEvents{}})
			outcome := e.SyncPod(t.Context(), plan.SyncRequest{Pod: pod, Observed: observed, Actions: test.actions, Backoff: map[string]*plan.Backoff{}})
			if got := outcome.KillError; (test.want == "") != (got == "") || !strings.HasPrefix(got, test.want) {
				t.Errorf("kill error %q, want %q...", got, test.want)
			}
			if (outcome.Err != nil) != test.wantErr {
				t.Errorf("error %v", outcome.Err)
			}
		})
	}
}

// lacking lacks an object, and isolates no users if it says so.
type lacking struct{ isolates error }

func (lacking) Missing(context.Context, *corev1.Pod) []plan.Missing {
	return []plan.Missing{{Container: "c", Reason: plan.Reason{Reason: v1alpha1.ReasonObjectsMissing, Message: "no secret"}}}
}

func (l lacking) CanIsolateUsers(ctx context.Context, _ *corev1.Pod) error {
	if _, bounded := ctx.Deadline(); !bounded {
		return errors.New("asked without a bound")
	}
	return l.isolates
}

// A change to hostUsers: false waits on a node that can't, and keeps what runs.
func TestChangeNeedsUserNamespaces(t *testing.T) {
	objects := lacking{}.Missing(t.Context(), nil)
	for name, tc := range map[string]struct {
		isolates error
		want     []plan.Missing
	}{
		"it can": {nil, objects},
		"it can't": {errors.New("can't"), append(objects,
			plan.Missing{Reason: plan.Reason{Reason: v1alpha1.ReasonNoUserNamespaces, Message: "can't"}})},
	} {
		if got := (needs{lacking{}, lacking{tc.isolates}}).Missing(t.Context(), &corev1.Pod{}); !slices.Equal(got, tc.want) {
			t.Errorf("%s: missing %+v, want %+v", name, got, tc.want)
		}
	}
}
