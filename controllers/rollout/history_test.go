// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

func TestStrategyOf(t *testing.T) {
	rolling := func(r v1alpha1.RollingUpdate) *v1alpha1.UpdateStrategy {
		return &v1alpha1.UpdateStrategy{RollingUpdate: &r}
	}
	tests := map[string]struct {
		spec    v1alpha1.ManagedWorkloadSpec
		desired int
		want    Strategy
	}{
		"defaults":    {desired: 100, want: Strategy{MaxUnavailable: 1}},
		"a number":    {spec: v1alpha1.ManagedWorkloadSpec{UpdateStrategy: rolling(v1alpha1.RollingUpdate{MaxUnavailable: new(intstr.FromInt32(3))})}, desired: 100, want: Strategy{MaxUnavailable: 3}},
		"rounded up":  {spec: v1alpha1.ManagedWorkloadSpec{UpdateStrategy: rolling(v1alpha1.RollingUpdate{MaxUnavailable: new(intstr.FromString("10%"))})}, desired: 11, want: Strategy{MaxUnavailable: 2}},
		"of no nodes": {spec: v1alpha1.ManagedWorkloadSpec{UpdateStrategy: rolling(v1alpha1.RollingUpdate{MaxUnavailable: new(intstr.FromString("10%"))})}, want: Strategy{MaxUnavailable: 1}},
		"all else": {
			spec: v1alpha1.ManagedWorkloadSpec{
				UpdateStrategy: &v1alpha1.UpdateStrategy{Type: v1alpha1.OnDeleteStrategyType}, Paused: true, MinReadySeconds: 7,
			},
			want: Strategy{MaxUnavailable: 1, OnDelete: true, Paused: true, MinReady: 7 * time.Second},
		},
		"partition": {spec: v1alpha1.ManagedWorkloadSpec{UpdateStrategy: rolling(v1alpha1.RollingUpdate{Partition: new(int32(4))})}, want: Strategy{MaxUnavailable: 1, Partition: 4}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, StrategyOf(&tc.spec, tc.desired)); diff != "" {
				t.Errorf("strategy (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCurrent(t *testing.T) {
	a, b, c := Revision{Hash: "a", Number: 1}, Revision{Hash: "b", Number: 2}, Revision{Hash: "c", Number: 3}
	rolledOut := func(r Revision) Revision { r.RolledOut = true; return r }
	tests := map[string]struct {
		revisions []Revision
		update    string
		shares    map[string]int
		want      string
	}{
		"the first one":                                              {revisions: []Revision{a}, update: "a", want: "a"},
		"none yet":                                                   {update: "a", want: "a"},
		"the one that was rolled out":                                {revisions: []Revision{rolledOut(a), b, c}, update: "c", shares: map[string]int{"a": 2, "b": 2, "c": 1}, want: "a"},
		"the one that most have, not complete":                       {revisions: []Revision{rolledOut(a), b, c}, update: "c", shares: map[string]int{"b": 5, "c": 1}, want: "b"},
		"the update, on its way to most":                             {revisions: []Revision{rolledOut(a), b}, update: "b", shares: map[string]int{"a": 2, "b": 3}, want: "a"},
		"taken back, not complete again":                             {revisions: []Revision{{Hash: "a", Number: 3}, b}, update: "a", shares: map[string]int{"a": 4, "b": 1}, want: "a"},
		"the last one that was rolled out":                           {revisions: []Revision{rolledOut(a), rolledOut(b), c}, update: "c", want: "b"},
		"the update once it is rolled out":                           {revisions: []Revision{rolledOut(a), rolledOut(c)}, update: "c", want: "c"},
		"the update once it is rolled out to the nodes that respond": {revisions: []Revision{rolledOut(a), rolledOut(b)}, update: "b", shares: map[string]int{"a": 2, "b": 1}, want: "b"},
		"what most nodes have if none ever was":                      {revisions: []Revision{a, b, c}, update: "c", shares: map[string]int{"a": 2, "b": 1, "c": 1}, want: "a"},
		"the one before if no node has any":                          {revisions: []Revision{a, b, c}, update: "c", want: "b"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Current(tc.revisions, tc.update, tc.shares); got != tc.want {
				t.Errorf("current %q, want %q", got, tc.want)
			}
		})
	}
}

func TestNumber(t *testing.T) {
	revisions := []Revision{{Hash: "a", Number: 1}, {Hash: "b", Number: 4}}
	for update, want := range map[string]int64{"b": 4, "a": 5, "new": 5} {
		if got := Number(revisions, update); got != want {
			t.Errorf("number of %s is %d, want %d", update, got, want)
		}
	}
	if got := Number(nil, "a"); got != 1 {
		t.Errorf("number of the first one is %d", got)
	}
}

func TestExpired(t *testing.T) {
	revisions := []Revision{{Hash: "d", Number: 4}, {Hash: "a", Number: 1}, {Hash: "c", Number: 3}, {Hash: "b", Number: 2}}
	inUse := map[string]bool{"d": true, "b": true}
	for limit, want := range map[int][]string{0: {"a", "c"}, 1: {"a"}, 2: nil, 10: nil} {
		var got []string
		for _, r := range Expired(revisions, inUse, limit) {
			got = append(got, r.Hash)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("expired with a limit of %d (-want +got):\n%s", limit, diff)
		}
	}
}

func TestCount(t *testing.T) {
	tests := map[string]struct {
		strategy Strategy
		nodes    []Node
		want     Tally
	}{
		"complete":                       {strategy: one(), nodes: []Node{up("a", "new"), up("b", "new")}, want: Tally{Available: 2, Complete: true}},
		"no nodes":                       {strategy: one()},
		"one is left":                    {strategy: one(), nodes: []Node{up("a", "new"), up("b", "old")}, want: Tally{Available: 1, Left: 1}},
		"one is not ready":               {strategy: one(), nodes: []Node{up("a", "new"), up("b", "new", down)}, want: Tally{Available: 1, Left: 1}},
		"one is away":                    {strategy: one(), nodes: []Node{up("a", "new"), up("b", "old", away)}, want: Tally{Available: 1, Complete: true}},
		"all are away":                   {strategy: one(), nodes: []Node{up("b", "old", away)}},
		"one is held":                    {strategy: one(), nodes: []Node{up("a", "new"), up("b", "old", other)}, want: Tally{Available: 1}},
		"paused":                         {strategy: one(func(s *Strategy) { s.Paused = true }), nodes: []Node{up("a", "new"), up("b", "old")}, want: Tally{Available: 1, Left: 1}},
		"one that is leaving, not ready": {strategy: one(), nodes: []Node{up("a", "new"), up("b", "new", tolerated, down)}, want: Tally{Available: 1, Complete: true}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			in := &Input{Update: "new", Current: "old", Strategy: tc.strategy, Nodes: tc.nodes, Now: now}
			b := Next(in)
			if diff := cmp.Diff(tc.want, Count(in, &b)); diff != "" {
				t.Errorf("tally (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStaysRolledOut(t *testing.T) {
	a, b := Revision{Hash: "a", Number: 1, RolledOut: true}, Revision{Hash: "b", Number: 2}
	if !StaysRolledOut([]Revision{a, b}, "a") {
		t.Error("taken back, it is not rolled out any more")
	}
	b.RolledOut = true
	if StaysRolledOut([]Revision{a, b}, "a") {
		t.Error("rolled out although another one was since")
	}
}

func TestProgress(t *testing.T) {
	const deadline = 10 * time.Minute
	type step struct {
		after      time.Duration
		generation int64
		tally      Tally
		paused     bool
		left       time.Duration
	}
	const rolledOut = 100 // a generation of a revision that was rolled out before
	tests := map[string][]step{
		"one node of many that never comes": {
			{0, 1, Tally{Available: 0, Left: 5}, false, deadline},
			{9 * time.Minute, 1, Tally{Available: 4, Left: 1}, false, deadline},
			{10 * time.Minute, 1, Tally{Available: 4, Left: 1}, false, 0},
		},
		"a flapping node is no progress": {
			{0, 1, Tally{Available: 1, Left: 4}, false, deadline},
			{5 * time.Minute, 1, Tally{Available: 0, Left: 5}, false, 5 * time.Minute},
			{5 * time.Minute, 1, Tally{Available: 1, Left: 4}, false, 0},
		},
		"once it is complete a node that fails is no matter of the roll-out": {
			{0, 1, Tally{Available: 5, Complete: true}, false, deadline},
			{time.Hour, 1, Tally{Available: 4, Left: 1}, false, deadline},
		},
		"the next roll-out has a deadline of its own": {
			{0, 1, Tally{Available: 5}, false, deadline},
			{time.Hour, 2, Tally{Left: 5}, false, deadline},
			{time.Hour, 2, Tally{Left: 5}, false, 0},
		},
		"what was rolled out before a restart has no deadline": {
			{0, rolledOut, Tally{Available: 4, Left: 1}, false, deadline},
			{time.Hour, rolledOut, Tally{Available: 4, Left: 1}, false, deadline},
		},
		"nodes that go are no lack of progress": {
			{0, 1, Tally{Available: 60, Left: 40}, false, deadline},
			{9 * time.Minute, 1, Tally{Available: 20, Left: 40}, false, time.Minute},
			{30 * time.Second, 1, Tally{Available: 21, Left: 39}, false, deadline},
		},
		"a node that goes and comes back is no progress": {
			{0, 1, Tally{Available: 4, Left: 1}, false, deadline},
			{3 * time.Minute, 1, Tally{Available: 3, Left: 1}, false, 7 * time.Minute},
			{time.Minute, 1, Tally{Available: 3, Left: 1}, false, 6 * time.Minute},
			{3 * time.Minute, 1, Tally{Available: 4, Left: 1}, false, 3 * time.Minute},
			{3 * time.Minute, 1, Tally{Available: 4, Left: 1}, false, 0},
		},
		"a node that waits, goes and comes back is progress once": {
			{0, 1, Tally{Available: 3, Left: 2}, false, deadline},
			{3 * time.Minute, 1, Tally{Available: 3, Left: 1}, false, deadline},
			{3 * time.Minute, 1, Tally{Available: 3, Left: 2}, false, 7 * time.Minute},
			{3 * time.Minute, 1, Tally{Available: 3, Left: 1}, false, 4 * time.Minute},
			{4 * time.Minute, 1, Tally{Available: 3, Left: 2}, false, 0},
		},
		"nodes that are let go later have a deadline of their own": {
			{0, 1, Tally{}, false, deadline},
			{time.Hour, 1, Tally{Left: 3}, false, deadline},
			{9 * time.Minute, 1, Tally{Left: 3}, false, time.Minute},
		},
		"a pause does not count": {
			{0, 1, Tally{Available: 1, Left: 4}, true, deadline},
			{time.Hour, 1, Tally{Available: 1, Left: 4}, true, deadline},
		},
		"while no node is there nothing is late": {
			{0, 1, Tally{}, false, deadline},
			{time.Hour, 1, Tally{}, false, deadline},
			{time.Hour, 1, Tally{Left: 1}, false, deadline},
			{time.Hour, 1, Tally{Left: 1}, false, 0},
		},
	}
	for name, steps := range tests {
		t.Run(name, func(t *testing.T) {
			at, p := now, Progress{}
			for i, s := range steps {
				at = at.Add(s.after)
				p = p.Next(&State{Revision: "r", RolledOut: s.generation == rolledOut, Generation: s.generation, Tally: s.tally, Paused: s.paused}, at)
				if got := p.Left(deadline, at); got != s.left {
					t.Errorf("after step %d %s is left, want %s", i, got, s.left)
				}
			}
		})
	}
}
