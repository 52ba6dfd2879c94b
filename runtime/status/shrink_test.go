// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// Each level takes less room than the one before, keeps the kills under way, and says
// what is missing, as long as there is one.
func TestShrink(t *testing.T) {
	long := strings.Repeat("\u00e9", 5000)
	st := &v1alpha1.NodeWorkloadStatus{Phase: corev1.PodRunning, Message: long[:4096], ObservedGeneration: 7}
	for i := range 100 {
		k := record(fmt.Sprint(i), "c", v1alpha1.TriggerTermination, v1alpha1.KillPhaseDone, t0)
		k.Message = long[:1000]
		if i < 3 {
			k.Phase = v1alpha1.KillPhaseStopping
		}
		st.Kills = append(st.Kills, k)
	}
	for i := range 40 {
		st.Conditions = append(st.Conditions, metav1.Condition{Type: fmt.Sprint("T", i), Message: long})
		st.ContainerStatuses = append(st.ContainerStatuses, corev1.ContainerStatus{
			Name:  fmt.Sprint("c", i),
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: long}},
		})
	}
	size := func(st *v1alpha1.NodeWorkloadStatus) int {
		data, err := json.Marshal(st)
		if err != nil {
			t.Fatal(err)
		}
		return len(data)
	}
	before, previous := size(st), &v1alpha1.NodeWorkloadStatus{}
	for level := 1; ; level++ {
		shrunk, ok := Shrink(st, previous, level, t0.Add(time.Duration(level)*time.Minute))
		if !ok {
			if level != len(sizes)+1 {
				t.Errorf("%d levels, want %d", level-1, len(sizes))
			}
			break
		}
		after := size(shrunk)
		last := shrunk.Conditions[len(shrunk.Conditions)-1]
		if after >= before || len(shrunk.Kills) < 4 || shrunk.Kills[2].Phase != v1alpha1.KillPhaseStopping || shrunk.Phase != corev1.PodRunning {
			t.Errorf("level %d: %d bytes after %d, %d kills", level, after, before, len(shrunk.Kills))
		}
		if last.Type != v1alpha1.ConditionStatusTruncated || len(shrunk.Conditions) > 32 || last.ObservedGeneration != 7 || !last.LastTransitionTime.Time.Equal(t0.Add(time.Minute)) {
			t.Errorf("level %d: condition %+v of %d", level, last, len(shrunk.Conditions))
		}
		before, previous = after, shrunk
	}
	if len(st.Kills) != 100 || len(st.Conditions) != 40 || len(st.ContainerStatuses[0].State.Waiting.Message) != len(long) {
		t.Error("the given status was changed")
	}
}

// A condition that the kubelet gives a Pod which is about to be disrupted is one of the
// NodeWorkload too.
func TestDisruptionTargetIsReported(t *testing.T) {
	disrupted := corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "TerminationByKubelet", Message: "node pressure"}
	st := NodeWorkload(NodeWorkloadInput{Pod: &corev1.Pod{}, Status: corev1.PodStatus{Conditions: []corev1.PodCondition{disrupted}}, Now: t0})
	i := conditionIndex(st.Conditions, string(corev1.DisruptionTarget))
	if i < 0 || st.Conditions[i].Reason != disrupted.Reason || st.Conditions[i].Message != disrupted.Message {
		t.Fatalf("conditions %+v", st.Conditions)
	}
	back := PodStatus(&st)
	if c := conditionByType(back.Conditions, corev1.DisruptionTarget); c == nil || c.Reason != disrupted.Reason {
		t.Errorf("conditions of the pod %+v", back.Conditions)
	}
}
