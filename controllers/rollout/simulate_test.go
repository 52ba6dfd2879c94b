// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// kind is what becomes of a node that gets a revision.
type kind int

const (
	good kind = iota
	// noImage: the shim waits for its image, and what ran keeps running.
	noImage
	// crashes: what ran is killed, and the new containers are never ready.
	crashes
	kinds
)

// report is what a shim says of its share.
type report struct {
	generation int
	runs       string
	ready      bool
	since      time.Time
}

// machine is a node as it is: what runs there, and what was asked for and reported.
type machine struct {
	there, selected, desired bool
	shim, hadShim            bool
	share, ending            bool
	spec                     string
	generation               int
	// runs and ready are the truth on the node, reported what its shim said last, and seen
	// what the controller's cache has of all that.
	runs     string
	ready    bool
	broken   bool
	reported *report
	seen     *machine
	// refused: the API server takes no change of its share.
	refused bool
	// spent: the controller changed the node while it counted on it.
	spent bool
}

// world is a fleet that is rolled out in memory.
type world struct {
	t         *rapid.T
	machines  []*machine
	revisions []Revision
	kinds     map[string]kind
	update    string
	strategy  Strategy
	// allowed is the largest budget since all nodes were undisturbed.
	allowed int
	now     time.Time
	// stale: what the controller wrote is not in its cache yet.
	stale bool
}

func newWorld(t *rapid.T) *world {
	w := &world{t: t, kinds: map[string]kind{}, strategy: Strategy{MaxUnavailable: 1}, now: now}
	for range rapid.IntRange(1, 12).Draw(t, "nodes") {
		w.machines = append(w.machines, &machine{there: true, desired: true, selected: true, shim: true, hadShim: true})
	}
	w.roll(good)
	w.settle()
	return w
}

// roll gives the workload a new template.
func (w *world) roll(k kind) {
	hash := fmt.Sprintf("r%d-%d", len(w.revisions), k)
	w.kinds[hash] = k
	w.to(hash)
}

// to makes a revision, known or not, the update.
func (w *world) to(hash string) {
	number := Number(w.revisions, hash)
	for i := range w.revisions {
		if r := &w.revisions[i]; r.Hash == hash {
			if r.Number != number {
				r.Number, r.RolledOut = number, r.RolledOut && StaysRolledOut(w.revisions, hash)
			}
			w.update = hash
			return
		}
	}
	w.revisions = append(w.revisions, Revision{Hash: hash, Number: number})
	w.update = hash
}

// look refreshes the controller's cache.
func (w *world) look() {
	for _, m := range w.machines {
		seen := *m
		seen.seen = nil
		if m.reported != nil {
			r := *m.reported
			seen.reported = &r
		}
		m.seen = &seen
	}
	w.stale = false
}

// input is what the controller knows.
func (w *world) input() *Input {
	shares := map[string]int{}
	in := &Input{Update: w.update, Strategy: w.strategy, Now: w.now}
	for i, m := range w.machines {
		s := m.seen
		n := Node{
			Refused: s.refused,
			Name:    fmt.Sprintf("n%d", i), Desired: s.there && s.desired, Selected: s.selected, Responds: s.shim && s.there,
			NoShim: !s.hadShim, Present: s.share, Ending: s.ending, Revision: s.spec,
		}
		if r := s.reported; r != nil && s.share {
			n.Observed, n.Ready, n.ReadySince = true, r.ready, r.since
			n.Reported = r.generation == s.generation
			n.RunsSpec, n.Runs = r.runs == s.spec, r.runs
		}
		if s.share {
			shares[s.spec]++
		}
		in.Nodes = append(in.Nodes, n)
	}
	in.Current = Current(w.revisions, w.update, shares)
	return in
}

// plan lets the controller do one batch, and checks it.
func (w *world) plan() bool {
	if w.stale || w.machines[0].seen == nil {
		return false
	}
	in := w.input()
	b := Next(in)
	w.check(in, &b)
	for _, c := range b.Changes {
		m := w.machines[c.Node]
		if m.refused {
			continue
		}
		if n := &in.Nodes[c.Node]; n.Present && n.Ready {
			m.spent = true
		}
		if !m.share {
			m.share, m.ending, m.reported, m.runs, m.ready = true, false, nil, "", false
		}
		m.spec = c.Revision
		m.generation++
	}
	w.stale = len(b.Changes) > 0
	if Count(in, &b).Complete {
		for i := range w.revisions {
			if w.revisions[i].Hash == w.update {
				w.revisions[i].RolledOut = true
			}
		}
	}
	return w.stale
}

// check is what has to be true of every batch.
func (w *world) check(in *Input, b *Batch) {
	takes, before := 0, 0
	changed := map[int]bool{}
	for _, c := range b.Changes {
		n := &in.Nodes[c.Node]
		changed[c.Node] = true
		if n.Present && n.Ready && n.settled() && n.availableIn(&in.Strategy, in.Now) == 0 {
			takes++
		}
		kills := n.Present && n.Runs != c.Revision
		if kills && (in.Strategy.Paused || in.Strategy.OnDelete || !n.Selected) {
			w.t.Fatalf("%s is changed although it is held", n.Name)
		}
		if kills && !n.Responds {
			w.t.Fatalf("%s is changed although its shim is away", n.Name)
		}
		if b.Waiting[c.Node] != "" {
			w.t.Fatalf("%s is changed and waits", n.Name)
		}
	}
	for i := range in.Nodes {
		n := &in.Nodes[i]
		if n.Desired && (n.Responds || n.Present && n.Ready) && !(n.Present && n.Ready && n.settled() && !n.Ending) && (n.Responds || n.Revision == in.Update) {
			before++
		}
		if has := n.Present && n.Revision == in.Update && !n.Ending; n.Desired && !has && !changed[i] && b.Waiting[i] == "" {
			w.t.Fatalf("%s does not get the revision, and no reason is given", n.Name)
		}
	}
	if takes > 0 && before+takes > in.Strategy.MaxUnavailable {
		w.t.Fatalf("%d available nodes are changed while %d are not available, with a budget of %d", takes, before, in.Strategy.MaxUnavailable)
	}
}

// sync lets a shim carry out its share.
func (w *world) sync(m *machine) {
	if !m.shim || !m.share || !m.there {
		return
	}
	switch {
	case m.ending:
		m.share, m.ending, m.runs, m.ready, m.reported = false, false, "", false, nil
		return
	case m.runs != m.spec && w.kinds[m.spec] == noImage:
	case m.runs != m.spec:
		m.runs, m.ready = m.spec, false
		w.disturbed()
	}
	w.report(m)
}

// disturbed checks how many nodes are down because the controller changed them.
func (w *world) disturbed() {
	down := 0
	for _, m := range w.machines {
		if m.spent && m.there && m.share && !m.ready {
			down++
		}
	}
	if down > w.allowed {
		w.t.Fatalf("%d nodes are down for the roll-out, with a budget of %d", down, w.allowed)
	}
}

func (w *world) report(m *machine) {
	since := time.Time{}
	if m.reported != nil {
		since = m.reported.since
	}
	if m.reported == nil || !m.reported.ready || m.reported.runs != m.runs {
		since = w.now
	}
	m.reported = &report{generation: m.generation, runs: m.runs, ready: m.ready, since: since}
}

// start makes the containers of a node ready, if they ever are.
func (w *world) start(m *machine) {
	if m.shim && m.share && m.runs != "" && w.kinds[m.runs] != crashes && !m.broken {
		m.ready = true
		if m.runs == m.spec {
			m.spent = false
		}
		w.report(m)
	}
}

// settle lets everything happen until nothing changes any more.
func (w *world) settle() {
	for range 20 * (len(w.machines) + 2) {
		w.allowed = max(w.allowed, w.strategy.MaxUnavailable)
		w.look()
		w.plan()
		w.look()
		for _, m := range w.machines {
			w.sync(m)
			w.start(m)
		}
		w.now = w.now.Add(w.strategy.MinReady + time.Second)
	}
	w.look()
	if w.plan() {
		w.t.Fatalf("the roll-out does not come to rest")
	}
	w.allowed = w.strategy.MaxUnavailable
}

// TestSimulation rolls templates out over fleets in which everything changes all the
// time, with a cache that lags, and checks every batch and where it ends.
func TestSimulation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		pick := func(t *rapid.T) *machine { return rapid.SampledFrom(w.machines).Draw(t, "node") }
		t.Repeat(map[string]func(*rapid.T){
			"":       func(*rapid.T) { w.allowed = max(w.allowed, w.strategy.MaxUnavailable) },
			"roll":   func(t *rapid.T) { w.roll(kind(rapid.IntRange(0, int(kinds)-1).Draw(t, "kind"))) },
			"revert": func(t *rapid.T) { w.to(rapid.SampledFrom(w.revisions).Draw(t, "revision").Hash) },
			"plan":   func(*rapid.T) { w.plan() },
			"plan 2": func(*rapid.T) { w.look(); w.plan() },
			"look":   func(*rapid.T) { w.look() },
			"sync":   func(t *rapid.T) { w.sync(pick(t)) },
			"start":  func(t *rapid.T) { w.start(pick(t)) },
			"step": func(*rapid.T) {
				for _, m := range w.machines {
					w.sync(m)
					w.start(m)
				}
			},
			"flap": func(t *rapid.T) {
				if m := pick(t); m.share && m.shim && m.ready {
					m.ready, m.spent = false, false
					w.report(m)
				}
			},
			"break": func(t *rapid.T) { m := pick(t); m.broken = !m.broken },
			"away":  func(t *rapid.T) { m := pick(t); m.shim = !m.shim },
			"upgrade": func(*rapid.T) { // new shims have not said yet what runs
				for _, m := range w.machines {
					if m.reported != nil {
						m.reported.generation = -1
					}
				}
			},
			"select": func(t *rapid.T) { m := pick(t); m.selected = !m.selected },
			"refuse": func(t *rapid.T) { m := pick(t); m.refused = !m.refused },
			"remove": func(t *rapid.T) { m := pick(t); m.there = !m.there },
			"taint":  func(t *rapid.T) { m := pick(t); m.desired = !m.desired },
			"delete": func(t *rapid.T) {
				if m := pick(t); m.share {
					m.ending = true
				}
			},
			"time": func(t *rapid.T) {
				w.now = w.now.Add(time.Duration(rapid.IntRange(1, 60).Draw(t, "seconds")) * time.Second)
			},
			"strategy": func(t *rapid.T) {
				w.strategy = Strategy{
					OnDelete: rapid.IntRange(0, 5).Draw(t, "on delete") == 0, Paused: rapid.IntRange(0, 3).Draw(t, "paused") == 0,
					MaxUnavailable: rapid.IntRange(1, 4).Draw(t, "max unavailable"), Partition: rapid.IntRange(0, 4).Draw(t, "partition"),
					MinReady: time.Duration(rapid.SampledFrom([]int{0, 0, 5, 30}).Draw(t, "min ready")) * time.Second,
				}
			},
			"add": func(t *rapid.T) {
				w.machines = append(w.machines, &machine{there: true, desired: true, selected: rapid.Bool().Draw(t, "selected"), shim: true, hadShim: true})
				w.look()
			},
		})
		w.converge()
	})
}

// converge ends the disturbances, rolls out something good, and checks that it arrives.
func (w *world) converge() {
	for _, m := range w.machines {
		m.there, m.shim, m.broken, m.refused, m.selected, m.desired = true, true, false, false, true, true
	}
	w.strategy = Strategy{MaxUnavailable: w.strategy.MaxUnavailable}
	w.allowed = max(w.allowed, w.strategy.MaxUnavailable)
	w.roll(good)
	w.settle()
	for i, m := range w.machines {
		if !m.share || m.runs != w.update || !m.ready {
			w.t.Fatalf("n%d runs %q of %q, ready %v", i, m.runs, w.update, m.ready)
		}
	}
	last := w.update
	w.roll(noImage)
	w.settle()
	reached := 0
	for i, m := range w.machines {
		if m.runs != last || !m.ready {
			w.t.Fatalf("n%d lost its containers to an image that does not exist", i)
		}
		if m.spec == w.update {
			reached++
		}
	}
	if reached > w.strategy.MaxUnavailable {
		w.t.Fatalf("an image that does not exist reached %d nodes, with a budget of %d", reached, w.strategy.MaxUnavailable)
	}
	w.to(last)
	w.look()
	w.plan()
	for i, m := range w.machines {
		if m.spec != last {
			w.t.Fatalf("n%d has %q one batch after the revert", i, m.spec)
		}
	}
}
