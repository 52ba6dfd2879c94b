// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"encoding/json"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/hack/recordings"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/plan/vectors"
)

type restartOutput struct {
	Containers                         map[string]containerRestart `json:"containers"`
	ShouldAllContainersRestart         bool                        `json:"shouldAllContainersRestart"`
	ShouldAllContainersRestartNoStatus bool                        `json:"shouldAllContainersRestartNoStatus"`
	AllContainersRestartCleanedUp      bool                        `json:"allContainersRestartCleanedUp"`
	AllContainersCouldRestart          bool                        `json:"allContainersCouldRestart"`
}

type containerRestart struct {
	ShouldContainerBeRestarted bool                   `json:"shouldContainerBeRestarted"`
	ByExitCode                 map[string]exitRestart `json:"byExitCode"`
}

type exitRestart struct {
	ContainerShouldRestart bool   `json:"containerShouldRestart"`
	RuleFound              bool   `json:"ruleFound"`
	RuleAction             string `json:"ruleAction,omitempty"`
}

func TestConformanceRestartDecision(t *testing.T) {
	t.Parallel()
	recordings.Each(t, "restart-decision", func(t *testing.T, _ []byte, v *recordings.Restart[restartOutput]) {
		observed := observedOf(t, v.PodStatus)
		got := restartOutput{
			Containers:                         map[string]containerRestart{},
			ShouldAllContainersRestart:         plan.ShouldAllContainersRestart(v.Pod, observed, v.APIPodStatus),
			ShouldAllContainersRestartNoStatus: plan.ShouldAllContainersRestart(v.Pod, nil, v.APIPodStatus),
			AllContainersRestartCleanedUp:      plan.AllContainersRestartCleanedUp(v.Pod, observed),
			AllContainersCouldRestart:          plan.AllContainersCouldRestart(v.Pod),
		}
		for _, list := range [][]corev1.Container{v.Pod.Spec.InitContainers, v.Pod.Spec.Containers} {
			for i := range list {
				got.Containers[list[i].Name] = restartOf(t, v.Pod, &list[i], observed, v.Output)
			}
		}
		if diff := cmp.Diff(v.Output, got); diff != "" {
			t.Errorf("%s: decisions differ (-kubelet +ours):\n%s", v.ID, diff)
		}
	})
}

func observedOf(t *testing.T, status recordings.PodStatus) *plan.PodStatus {
	t.Helper()
	data, err := json.Marshal(status)
	if err != nil {
		t.Fatal(err)
	}
	observed, err := vectors.DecodePodStatus(data)
	if err != nil {
		t.Fatal(err)
	}
	return observed
}

// restartOf decides for the exit codes that the vector asks about.
func restartOf(t *testing.T, pod *corev1.Pod, c *corev1.Container, observed *plan.PodStatus,
	want restartOutput) containerRestart {
	t.Helper()
	got := containerRestart{
		ShouldContainerBeRestarted: plan.ShouldContainerBeRestarted(pod, c, observed),
		ByExitCode:                 map[string]exitRestart{},
	}
	for code := range want.Containers[c.Name].ByExitCode {
		exitCode, err := strconv.ParseInt(code, 10, 32)
		if err != nil {
			t.Fatalf("Exit code %q: %v", code, err)
		}
		rule, found := plan.MatchingRestartRule(c, int32(exitCode))
		got.ByExitCode[code] = exitRestart{
			ContainerShouldRestart: plan.ContainerShouldRestart(pod, c, int32(exitCode)),
			RuleFound:              found,
			RuleAction:             string(rule.Action),
		}
	}
	return got
}
