// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// A mistake in a flag names the flag and the part.
func TestThresholdMistakes(t *testing.T) {
	t.Parallel()
	type texts = plan.ThresholdTexts
	tests := map[string]struct {
		flags plan.EvictionFlags
		want  string
	}{
		"unknown signal": {
			plan.EvictionFlags{Hard: texts{"memory": "1Gi"}},
			`--eviction-hard: "1Gi": the signal "memory" is not supported; memory.available, nodefs.available, nodefs.inodesFree, imagefs.available, imagefs.inodesFree, pid.available are`,
		},
		"no quantity": {
			plan.EvictionFlags{Soft: texts{"pid.available": "a"}, SoftGracePeriod: texts{"pid.available": "1s"}},
			`--eviction-soft: pid.available, "a": quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'`,
		},
		"no percentage":  {plan.EvictionFlags{Hard: texts{"nodefs.available": "x%"}}, `--eviction-hard: nodefs.available, "x%": this is no percentage`},
		"NaN":            {plan.EvictionFlags{Hard: texts{"nodefs.available": "NaN%"}}, `--eviction-hard: nodefs.available, "NaN%": this is no percentage`},
		"too much":       {plan.EvictionFlags{Hard: texts{"nodefs.available": "101%"}}, `--eviction-hard: nodefs.available, "101%": a percentage must be between 0% and 100%`},
		"zero":           {plan.EvictionFlags{Hard: texts{"nodefs.available": "0"}}, `--eviction-hard: nodefs.available, "0": a quantity must be positive`},
		"no grace":       {plan.EvictionFlags{Soft: texts{"pid.available": "1"}}, `--eviction-soft: pid.available, "1": --eviction-soft-grace-period must give a grace period for pid.available`},
		"bad grace":      {plan.EvictionFlags{Soft: texts{"pid.available": "1"}, SoftGracePeriod: texts{"pid.available": "1"}}, `--eviction-soft-grace-period: pid.available, "1": time: missing unit in duration "1"`},
		"negative grace": {plan.EvictionFlags{SoftGracePeriod: texts{"pid.available": "-1s"}}, `--eviction-soft-grace-period: pid.available, "-1s": a grace period must not be negative`},
		"reclaim":        {plan.EvictionFlags{MinimumReclaim: texts{"pid.available": "-1"}}, `--eviction-minimum-reclaim: pid.available, "-1": a quantity must not be negative`},
		"reclaim 0%":     {plan.EvictionFlags{MinimumReclaim: texts{"pid.available": "0%"}}, `--eviction-minimum-reclaim: pid.available, "0%": a percentage must be positive`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			thresholds, err := tt.flags.Thresholds()
			if err == nil || err.Error() != tt.want || thresholds != nil {
				t.Errorf("%v, error %v\nwant  %s", thresholds, err, tt.want)
			}
		})
	}
}

// A flag is a list of parts, each with a signal of its own.
func TestSplitThresholds(t *testing.T) {
	t.Parallel()
	got, err := plan.SplitThresholds("--eviction-hard", []string{" memory.available<1Gi", "", "nodefs.available<10%"}, "<")
	if diff := cmp.Diff(plan.ThresholdTexts{"memory.available": "1Gi", "nodefs.available": "10%"}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	for parts, want := range map[[2]string]string{
		{"memory.available=1Gi"}:                           `--eviction-hard: "memory.available=1Gi" is not of the form signal<value`,
		{"memory.available<1Gi", "memory.available < 2Gi"}: `--eviction-hard: "memory.available < 2Gi": memory.available is given twice`,
	} {
		if _, err := plan.SplitThresholds("--eviction-hard", parts[:], "<"); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// Which grace period a workload has left, by the threshold and the flag.
func TestPressureGrace(t *testing.T) {
	t.Parallel()
	soft := plan.Threshold{Signal: plan.SignalMemoryAvailable, GracePeriod: time.Minute}
	hard := plan.Threshold{Signal: plan.SignalMemoryAvailable}
	pod := newPod(corev1.RestartPolicyAlways, "c")
	unset := newPod(corev1.RestartPolicyAlways, "c")
	unset.Spec.TerminationGracePeriodSeconds = nil
	for name, tt := range map[string]struct {
		pod       *corev1.Pod
		threshold plan.Threshold
		most      int64
		want      *int64
	}{
		"hard":                {pod, hard, 600, new(int64(1))},
		"soft, the flag's":    {pod, soft, 20, new(int64(20))},
		"soft, the pod's":     {pod, soft, 600, new(int64(30))},
		"soft, no flag":       {pod, soft, 0, new(int64(0))},
		"soft, without bound": {pod, soft, -1, nil},
		"soft, unset":         {unset, soft, 20, new(int64(20))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			end := plan.DecidePressureEviction(plan.PressureEviction{Candidate: plan.Candidate{Pod: tt.pod}, Threshold: tt.threshold, MaxGraceSeconds: tt.most})
			if diff := cmp.Diff(tt.want, end.Override); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What an eviction says, and to whom; a shim that knows only the status ends it with the same
// trigger.
func TestPressureEviction(t *testing.T) {
	t.Parallel()
	observed := plan.Observations{plan.SignalNodeFsAvailable: {
		{Available: new(resource.MustParse("10Gi")), Capacity: new(resource.MustParse("20Gi"))},
		{Available: new(resource.MustParse("1Gi")), Capacity: new(resource.MustParse("20Gi"))},
	}}
	use := &plan.PodUse{Containers: []plan.ContainerUse{{
		Name: "c", RootFs: plan.DiskUse{Bytes: new(int64(1024))}, Logs: plan.DiskUse{Bytes: new(int64(1024))},
	}}}
	got := plan.DecidePressureEviction(plan.PressureEviction{
		Candidate: plan.Candidate{Pod: newPod(corev1.RestartPolicyAlways, "c"), Use: use}, Observed: observed,
		Threshold: plan.Threshold{Signal: plan.SignalNodeFsAvailable, Value: plan.ThresholdValue{Percentage: 0.5}},
	})
	const message = "The node was low on resource: ephemeral-storage. Threshold quantity: 10Gi, available: 1Gi. " +
		"Container c was using 2Ki, request is 0, has larger consumption of ephemeral-storage. "
	want := &plan.Termination{
		Trigger: v1alpha1.TriggerNodePressure, Override: new(int64(1)), Reason: "Evicted", Message: message, RequestedBy: "shim (node pressure)",
		Condition: &corev1.PodCondition{Type: "DisruptionTarget", Status: "True", Reason: "TerminationByKubelet", Message: message},
		EventAnnotations: map[string]string{
			"offending_containers": "c", "offending_containers_usage": "2Ki", "starved_resource": "ephemeral-storage",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	restored := plan.Evicted(&corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: message})
	want.Override, want.EventAnnotations = nil, nil
	if diff := cmp.Diff(want, restored); diff != "" {
		t.Error(diff)
	}
}

// Who may start on a node that is short of something.
func TestAdmitUnderPressure(t *testing.T) {
	t.Parallel()
	memory, disk := corev1.NodeMemoryPressure, corev1.NodeDiskPressure
	with := func(change func(*corev1.Pod)) *corev1.Pod {
		pod := newPod(corev1.RestartPolicyAlways, "c")
		change(pod)
		return pod
	}
	bestEffort := with(func(*corev1.Pod) {})
	burstable := with(func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	})
	static := with(func(pod *corev1.Pod) { pod.UID = "static-1" })
	critical := with(func(pod *corev1.Pod) { pod.Spec.Priority = new(int32(2_000_000_000)) })
	tolerates := func(tolerations ...corev1.Toleration) *corev1.Pod {
		return with(func(pod *corev1.Pod) { pod.Spec.Tolerations = tolerations })
	}
	key := corev1.TaintNodeMemoryPressure
	for name, tt := range map[string]struct {
		pod        *corev1.Pod
		conditions []corev1.NodeConditionType
		want       string
	}{
		"no pressure":               {bestEffort, nil, ""},
		"best effort":               {bestEffort, []corev1.NodeConditionType{memory}, "The node had condition: [MemoryPressure]. "},
		"requests something":        {burstable, []corev1.NodeConditionType{memory}, ""},
		"requests, disk":            {burstable, []corev1.NodeConditionType{disk}, "The node had condition: [DiskPressure]. "},
		"requests, both":            {burstable, []corev1.NodeConditionType{memory, disk}, "The node had condition: [MemoryPressure DiskPressure]. "},
		"static":                    {static, []corev1.NodeConditionType{memory, disk}, ""},
		"critical":                  {critical, []corev1.NodeConditionType{memory, disk}, ""},
		"tolerates":                 {tolerates(corev1.Toleration{Key: key, Operator: "Exists"}), []corev1.NodeConditionType{memory}, ""},
		"tolerates, disk":           {tolerates(corev1.Toleration{Key: key, Operator: "Exists"}), []corev1.NodeConditionType{disk}, "The node had condition: [DiskPressure]. "},
		"tolerates all":             {tolerates(corev1.Toleration{Operator: "Exists"}), []corev1.NodeConditionType{memory}, ""},
		"tolerates an equal one":    {tolerates(corev1.Toleration{Key: key, Effect: "NoSchedule"}), []corev1.NodeConditionType{memory}, ""},
		"tolerates another value":   {tolerates(corev1.Toleration{Key: key, Value: "x"}), []corev1.NodeConditionType{memory}, "The node had condition: [MemoryPressure]. "},
		"tolerates another effect":  {tolerates(corev1.Toleration{Key: key, Operator: "Exists", Effect: "NoExecute"}), []corev1.NodeConditionType{memory}, "The node had condition: [MemoryPressure]. "},
		"tolerates another taint":   {tolerates(corev1.Toleration{Key: "x", Operator: "Exists"}), []corev1.NodeConditionType{memory}, "The node had condition: [MemoryPressure]. "},
		"compares with less (beta)": {tolerates(corev1.Toleration{Key: key, Operator: "Lt", Value: "1"}), []corev1.NodeConditionType{memory}, "The node had condition: [MemoryPressure]. "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var want *plan.Refusal
			if tt.want != "" {
				want = &plan.Refusal{Reason: "Evicted", Message: tt.want}
			}
			if diff := cmp.Diff(want, plan.AdmitUnderPressure(tt.pod, tt.conditions)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Memory is reclaimed first, and of one signal a hard threshold counts before a soft one: it says
// how long the workload has.
func TestMostUrgentThreshold(t *testing.T) {
	t.Parallel()
	flags := plan.EvictionFlags{
		Hard:            plan.ThresholdTexts{"pid.available": "10", "memory.available": "1Gi"},
		Soft:            plan.ThresholdTexts{"memory.available": "2Gi", "nodefs.available": "10%"},
		SoftGracePeriod: plan.ThresholdTexts{"memory.available": "1s", "nodefs.available": "1s"},
	}
	thresholds, err := flags.Thresholds()
	if err != nil {
		t.Fatal(err)
	}
	one, all := new(resource.MustParse("1")), new(resource.MustParse("100Gi"))
	observed := plan.Observations{}
	for _, s := range []plan.Signal{plan.SignalMemoryAvailable, plan.SignalNodeFsAvailable, plan.SignalPIDAvailable} {
		observed[s] = []plan.Observation{{Available: one, Capacity: all}}
	}
	known, _ := plan.Pressure{}.Look(thresholds, observed, time.Unix(100, 0))
	_, urgent := known.Look(thresholds, observed, time.Unix(110, 0))
	var got []string
	for _, u := range urgent {
		got = append(got, string(u.Signal)+" "+u.GracePeriod.String())
	}
	if want := []string{"memory.available 0s", "memory.available 1s", "nodefs.available 1s", "pid.available 0s"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
