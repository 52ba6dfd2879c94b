// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// The conditions say since when nodes wait, and do not change while nothing does: a message
// with a duration would be a write at every look.
func TestConditionsSaySinceWhen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		writes := 0
		b := newFleet(t, interceptor.Funcs{SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
			if _, ok := obj.(*v1alpha1.ManagedWorkload); ok {
				writes++
			}
			return c.SubResource(sub).Update(ctx, obj, opts...)
		}})
		time.Sleep(time.Minute)
		began := time.Now().UTC().Format(time.RFC3339)
		b.change(image("bad:1"))
		b.turn()
		b.turn()
		mw := b.turn()
		text := message(mw, v1alpha1.ConditionReady)
		for _, want := range []string{"4 nodes wait (MaxUnavailable, since " + began + "): ", "(ImagePullBackOff; no such image, since " + began + ")"} {
			if !strings.Contains(text, want) {
				t.Errorf("Ready: %s, want %q", text, want)
			}
		}
		writes = 0
		for range 5 {
			time.Sleep(10 * time.Second)
			mw = b.turn()
		}
		if again := message(mw, v1alpha1.ConditionReady); again != text || writes != 0 {
			t.Errorf("%d writes while nothing changed; Ready was %q, is %q", writes, text, again)
		}
		b.memories = memories{} // the manager restarts, and knows no more than that they wait
		restarted := time.Now().UTC().Format(time.RFC3339)
		if text := message(b.turn(), v1alpha1.ConditionReady); !strings.Contains(text, "4 nodes wait (MaxUnavailable, since before "+restarted+"): ") {
			t.Errorf("after a restart: %s", text)
		}
	})
}

// A pause, its end and what the strategy holds are announced once each, by a manager that
// has just begun as well.
func TestHoldsAreAnnouncedOnce(t *testing.T) {
	pause := func(paused bool) func(*v1alpha1.ManagedWorkloadSpec) {
		return func(spec *v1alpha1.ManagedWorkloadSpec) { spec.Paused = paused }
	}
	rolling := func(r v1alpha1.RollingUpdate) func(*v1alpha1.ManagedWorkloadSpec) {
		return func(spec *v1alpha1.ManagedWorkloadSpec) {
			spec.UpdateStrategy = &v1alpha1.UpdateStrategy{RollingUpdate: &r}
		}
	}
	onDelete := func(spec *v1alpha1.ManagedWorkloadSpec) {
		spec.UpdateStrategy = &v1alpha1.UpdateStrategy{Type: v1alpha1.OnDeleteStrategyType}
	}
	tests := map[string]struct {
		changes []func(*v1alpha1.ManagedWorkloadSpec)
		want    []string
	}{
		"paused and resumed": {
			[]func(*v1alpha1.ManagedWorkloadSpec){pause(true), pause(false)},
			[]string{"RollOutPaused Paused revision R: spec.paused keeps 5 nodes from it", "RollOutResumed Resumed revision R"},
		},
		"partition": {
			[]func(*v1alpha1.ManagedWorkloadSpec){rolling(v1alpha1.RollingUpdate{Partition: new(int32(5))}), rolling(v1alpha1.RollingUpdate{Partition: new(int32(4))})},
			[]string{"RollOutHeld Held revision R from 5 nodes (Partition): n1, n2, n3, n4, n5"},
		},
		"canary": {
			[]func(*v1alpha1.ManagedWorkloadSpec){rolling(v1alpha1.RollingUpdate{NodeSelector: map[string]string{"number": "2"}})},
			[]string{"RollOutHeld Held revision R from 4 nodes (NodeSelector): n1, n3, n4, n5"},
		},
		"OnDelete": {
			[]func(*v1alpha1.ManagedWorkloadSpec){onDelete},
			[]string{"RollOutHeld Held revision R from 5 nodes (OnDelete): n1, n2, n3, n4, n5"},
		},
		"paused with a partition of all": { // the pause keeps no node
			[]func(*v1alpha1.ManagedWorkloadSpec){
				func(spec *v1alpha1.ManagedWorkloadSpec) {
					rolling(v1alpha1.RollingUpdate{Partition: new(int32(5))})(spec)
					pause(true)(spec)
				},
				pause(false),
			},
			[]string{"RollOutHeld Held revision R from 5 nodes (Partition): n1, n2, n3, n4, n5"},
		},
		"paused with a canary": {
			[]func(*v1alpha1.ManagedWorkloadSpec){
				func(spec *v1alpha1.ManagedWorkloadSpec) {
					rolling(v1alpha1.RollingUpdate{NodeSelector: map[string]string{"number": "2"}})(spec)
					pause(true)(spec)
				},
				pause(false),
			},
			[]string{
				"RollOutPaused Paused revision R: spec.paused keeps 1 node from it", "RollOutHeld Held revision R from 4 nodes (NodeSelector): n1, n3, n4, n5",
				"RollOutResumed Resumed revision R",
			},
		},
	}
	for name, tc := range tests {
		for _, restarts := range []bool{false, true} {
			t.Run(name+map[bool]string{true: ", with restarts"}[restarts], func(t *testing.T) {
				b := newFleet(t, interceptor.Funcs{})
				b.drain("RollOut")
				for i, change := range tc.changes {
					b.change(change)
					if i == 0 {
						b.change(image("app:9"))
					}
					for range 3 {
						b.turn()
						if restarts {
							b.memories = memories{}
						}
					}
				}
				var got []string
				for _, event := range b.drain("RollOut") {
					event = strings.ReplaceAll(strings.TrimPrefix(event, "Normal "), b.workload().Status.UpdateRevision, "R")
					if !strings.HasPrefix(event, eventRollOut+" ") && !strings.HasPrefix(event, eventRolledOut+" ") {
						got = append(got, event)
					}
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
			})
		}
	}
}
