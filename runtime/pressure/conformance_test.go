// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package pressure

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/hack/recordings"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// replay is a node as a vector has it.
type replay struct {
	vector *recordings.Eviction
	step   *recordings.EvictionStep
	got    recordings.EvictionAnswer
	gone   []string
	// reclaimed: containers and images were removed.
	reclaimed bool
}

func (r *replay) Observe(context.Context) (plan.Observations, bool, error) {
	observed := r.step.Observed
	if r.reclaimed {
		observed = r.step.Reclaimed
	}
	return recordings.Observations(observed), r.vector.ImageFs, nil
}

func (r *replay) Uses(_ context.Context, pods []*corev1.Pod, _ bool) (map[types.UID]*plan.PodUse, error) {
	uses := map[types.UID]*plan.PodUse{}
	for _, c := range recordings.Candidates(pods, r.step.Uses) {
		uses[c.Pod.UID] = c.Use
	}
	return uses, nil
}

func (r *replay) Candidates() []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(r.vector.Pods), func(pod *corev1.Pod) bool { return slices.Contains(r.gone, pod.Name) })
}

func (r *replay) Terminate(uid types.UID, t plan.Termination) bool {
	for _, pod := range r.vector.Pods {
		if pod.UID == uid {
			r.got.Killed = pod.Name
		}
	}
	r.got.Override, r.got.Message, r.got.Condition, r.got.Annotations = *t.Override, t.Message, t.Condition, t.EventAnnotations
	return true
}

func (r *replay) Ended(types.UID) (dead, released bool) { return true, true }

// removes is what is removed before a workload is ended.
type removes struct {
	*replay
	what string
}

func (r removes) Reclaim(context.Context) error {
	r.reclaimed = true
	r.got.Actions = append(r.got.Actions, r.what)
	return nil
}

// Looks at a node, one after the other, come to the same as the kubelet's: conditions, what is
// removed, who is ended with which grace period and words, and who is not admitted.
func TestConformanceEvictionTrace(t *testing.T) {
	t.Parallel()
	recordings.Each(t, "eviction-trace", func(t *testing.T, _ []byte, v *recordings.Eviction) {
		synctest.Test(t, func(t *testing.T) { replayEviction(t, v) })
	})
}

func replayEviction(t *testing.T, v *recordings.Eviction) {
	thresholds, err := v.Flags.Plan().Thresholds()
	if err != nil {
		t.Fatalf("%s: %v", v.ID, err)
	}
	r := &replay{vector: v}
	m := New(Config{
		Thresholds: thresholds, MaxGraceSeconds: v.MaxGraceSeconds, Transition: seconds(v.TransitionSeconds), Node: r, Stats: r, Workloads: r,
		Reclaimers: []Reclaimer{removes{r, "remove containers"}, removes{r, "remove images"}},
		Changed:    func([]corev1.NodeConditionType) {}, Evicted: func(plan.Signal) {},
		Warn:   func(reason, message string) { r.got.Actions = append(r.got.Actions, reason+": "+message) },
		Logger: logr.Discard(),
	})
	began := time.Now()
	for i := range v.Steps {
		r.step, r.reclaimed = &v.Steps[i], false
		r.got = recordings.EvictionAnswer{Conditions: []string{}, Actions: []string{}, Refused: map[string]string{}}
		time.Sleep(time.Until(began.Add(seconds(r.step.Now))))
		if err := m.round(t.Context()); err != nil {
			t.Fatalf("%s: %v", v.ID, err)
		}
		r.admissions(m)
		if diff := cmp.Diff(r.step.EvictionAnswer, r.got); diff != "" {
			t.Fatalf("%s, look %d: %s", v.ID, i, diff)
		}
		r.gone = append(r.gone, r.got.Killed)
	}
}

// admissions notes the node's conditions, and whom it does not admit.
func (r *replay) admissions(m *Manager) {
	for _, c := range m.Conditions() {
		r.got.Conditions = append(r.got.Conditions, string(c))
	}
	slices.Sort(r.got.Conditions)
	for _, pod := range r.vector.Pods {
		if refusal := m.Admit(pod); refusal != nil {
			r.got.Refused[pod.Name] = refusal.Reason
			if len(r.got.Conditions) == 1 {
				r.got.Refused[pod.Name] += ": " + refusal.Message
			}
		}
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
