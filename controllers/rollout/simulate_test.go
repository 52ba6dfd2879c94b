// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestMain looks at more fleets than the default of 100: a mistake with dead nodes, say,
// shows in one in several hundred.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "500"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

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
	// blocked: another object has the name of its share.
	blocked bool
	share   bool
	ending  bool
	// spec is the revision of the share, and edit what a person changed in it since.
	spec, edit string
	generation int
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
	// free: it got a change while it was down, which took no budget, and has not carried it
	// out. Next replaces that beside nodes that are down, although the node may be up since.
	free bool
	// unseen: what the controller wrote is not in its cache yet.
	unseen bool
}

// content is what the spec of the share says.
func (m *machine) content() string { return m.spec + m.edit }

// world is a fleet that is rolled out in memory.
type world struct {
	t         *rapid.T
	machines  []*machine
	revisions []Revision
	kinds     map[string]kind
	update    string
	strategy  Strategy
	// allowed is the largest budget since no node was disturbed.
	allowed int
	now     time.Time
	edits   int
}

// newWorld starts with a fleet at rest, or in whatever state.
func newWorld(t *rapid.T) *world {
	w := &world{t: t, kinds: map[string]kind{}, strategy: Strategy{MaxUnavailable: 1}, now: now}
	for range rapid.IntRange(1, 12).Draw(t, "nodes") {
		w.add()
	}
	w.roll(good)
	if rapid.Bool().Draw(t, "at rest") {
		w.settle()
		return w
	}
	for range rapid.IntRange(0, 2).Draw(t, "revisions") {
		w.revisions[len(w.revisions)-1].RolledOut = rapid.Bool().Draw(t, "rolled out")
		w.roll(w.kind())
	}
	for _, m := range w.machines {
		w.scramble(m)
		m.free = !m.ready
		if m.spent = m.ready && m.runs != m.spec; m.spent { // an earlier budget was larger
			w.allowed++
		}
	}
	w.look()
	return w
}

func (w *world) add() *machine {
	m := &machine{there: true, desired: true, selected: true, shim: true, hadShim: true}
	w.machines = append(w.machines, m)
	return m
}

func (w *world) kind() kind { return kind(rapid.IntRange(0, int(kinds)-1).Draw(w.t, "kind")) }

// scramble gives a node any share, and lets it run anything.
func (w *world) scramble(m *machine) {
	some := func(label string) string { return rapid.SampledFrom(w.revisions).Draw(w.t, label).Hash }
	m.hadShim = rapid.IntRange(0, 5).Draw(w.t, "had a shim") > 0
	m.shim = m.hadShim && rapid.IntRange(0, 5).Draw(w.t, "shim") > 0
	m.selected = rapid.IntRange(0, 2).Draw(w.t, "selected") > 0
	m.share = rapid.IntRange(0, 4).Draw(w.t, "share") > 0
	if !m.share {
		return
	}
	m.spec = some("spec")
	if m.hadShim && rapid.IntRange(0, 5).Draw(w.t, "runs something") > 0 {
		m.runs = some("runs")
		m.ready = w.kinds[m.runs] == good && rapid.IntRange(0, 3).Draw(w.t, "ready") > 0
		w.report(m)
	}
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
		w.lookAt(m)
	}
}

// lookAt refreshes what the controller's cache has of one node.
func (w *world) lookAt(m *machine) {
	m.unseen = false
	seen := *m
	seen.seen = nil
	if m.reported != nil {
		r := *m.reported
		seen.reported = &r
	}
	m.seen = &seen
}

// input is what the controller knows.
func (w *world) input() *Input {
	shares := map[string]int{}
	in := &Input{Update: w.update, Strategy: w.strategy, Now: w.now}
	for i, m := range w.machines {
		s := m.seen
		n := Node{
			Refused: s.refused, Blocked: s.blocked, Edited: s.edit != "",
			Name: fmt.Sprintf("n%d", i), Desired: s.there && s.desired, Selected: s.selected, Responds: s.shim && s.there,
			NoShim: !s.hadShim && s.reported == nil, Present: s.share, Ending: s.ending, Revision: s.spec,
		}
		if r := s.reported; r != nil && s.share {
			n.Observed, n.Ready, n.ReadySince = true, r.ready, r.since
			n.Reported = r.generation == s.generation
			n.RunsSpec = r.runs == s.content()
			if slices.ContainsFunc(w.revisions, func(known Revision) bool { return known.Hash == r.runs }) {
				n.Runs = r.runs
			}
		}
		if s.share {
			shares[s.spec]++
		}
		in.Nodes = append(in.Nodes, n)
	}
	in.Current = Current(w.revisions, w.update, shares)
	return in
}

// plan lets the controller do one batch, checks it, and says whether it changed anything.
// There is none before the cache has what the last one wrote.
func (w *world) plan() bool {
	if slices.ContainsFunc(w.machines, func(m *machine) bool { return m.unseen }) {
		return false
	}
	in := w.input()
	b := Next(in)
	w.check(in, &b)
	for i := range in.Nodes {
		n := &in.Nodes[i]
		if !n.Responds && n.Revision != in.Update && (n.Reported || n.Runs == "" || w.machines[i].refused) {
			w.machines[i].spent = false // a dead node with an earlier revision blocks nothing
		}
	}
	changed := false
	for _, c := range b.Changes {
		changed = w.apply(&in.Nodes[c.Node], w.machines[c.Node], c.Revision) || changed
	}
	if Count(in, &b).Complete {
		for i := range w.revisions {
			if w.revisions[i].Hash == w.update {
				w.revisions[i].RolledOut = true
			}
		}
	}
	return changed
}

// apply writes one change, unless the API server has other ideas.
func (w *world) apply(n *Node, m *machine, revision string) bool {
	if m.refused || m.share != n.Present || m.blocked {
		return false
	}
	replaces := n.Edited && !n.RunsSpec // a person's change, which would disturb the node, too
	m.free = !n.Ready || m.free && !n.RunsSpec
	if n.Present && n.Ready && n.Runs != revision && !replaces && !m.free {
		m.spent = true
	}
	if !m.share {
		m.share, m.ending, m.reported, m.runs, m.ready = true, false, nil, "", false
	}
	m.spec, m.edit, m.unseen = revision, "", true
	m.generation++
	return true
}

// sync lets a shim carry out its share.
func (w *world) sync(m *machine) {
	if !m.shim || !m.share || !m.there {
		return
	}
	switch {
	case m.ending:
		m.share, m.ending, m.edit, m.runs, m.ready, m.reported = false, false, "", "", false, nil
		m.spent = false // a person disturbed it
		return
	case m.runs != m.content() && w.kinds[m.content()] == noImage:
	case m.runs != m.content():
		m.runs, m.ready = m.content(), false
		w.disturbed()
	}
	w.report(m)
}

// allow lets the controller disturb what its budget says, and what an earlier, larger one said
// as long as nodes are disturbed from then.
func (w *world) allow() {
	w.allowed = max(w.allowed, w.strategy.MaxUnavailable)
	if !slices.ContainsFunc(w.machines, func(m *machine) bool { return m.spent }) {
		w.allowed = w.strategy.MaxUnavailable
	}
}

// down is how many nodes are down because the controller changed them.
func (w *world) down() int {
	down := 0
	for _, m := range w.machines {
		if m.spent && m.there && m.share && !m.ready {
			down++
		}
	}
	return down
}

// disturbed checks how many nodes are down because the controller changed them.
func (w *world) disturbed() {
	if down := w.down(); down > w.allowed {
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
		if m.runs == m.content() {
			m.spent = false
		}
		w.report(m)
	}
}

// settle lets everything happen until nothing changes any more.
func (w *world) settle() {
	quiet := 0
	for range 20 * (len(w.machines) + 2) {
		w.allowed = max(w.allowed, w.strategy.MaxUnavailable)
		w.look()
		quiet++
		if w.plan() {
			quiet = 0
		}
		w.look()
		if quiet == 3 {
			w.allowed = max(w.strategy.MaxUnavailable, w.down())
			return
		}
		w.step()
		w.now = w.now.Add(w.strategy.MinReady + time.Second)
	}
	w.t.Fatalf("the roll-out does not come to rest")
}

// step lets all nodes do what they are to do.
func (w *world) step() {
	for _, m := range w.machines {
		w.sync(m)
		w.start(m)
	}
}

// TestSimulation rolls templates out over fleets in which everything changes all the
// time, with a cache that lags, and checks every batch and where it ends.
func TestSimulation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		pick := func(t *rapid.T) *machine { return rapid.SampledFrom(w.machines).Draw(t, "node") }
		t.Repeat(map[string]func(*rapid.T){
			"":       func(*rapid.T) { w.allow() },
			"roll":   func(*rapid.T) { w.roll(w.kind()) },
			"revert": func(t *rapid.T) { w.to(rapid.SampledFrom(w.revisions).Draw(t, "revision").Hash) },
			"plan":   func(*rapid.T) { w.plan() },
			"plan 2": func(*rapid.T) { w.look(); w.plan() },
			"look":   func(*rapid.T) { w.look() },
			"look 1": func(t *rapid.T) { w.lookAt(pick(t)) },
			"sync":   func(t *rapid.T) { w.sync(pick(t)) },
			"start":  func(t *rapid.T) { w.start(pick(t)) },
			"step":   func(*rapid.T) { w.step() },
			"flap": func(t *rapid.T) {
				if m := pick(t); m.share && m.shim && m.ready {
					m.ready, m.spent = false, false
					w.report(m)
				}
			},
			"break": func(t *rapid.T) { m := pick(t); m.broken = !m.broken },
			"away": func(t *rapid.T) {
				m := pick(t)
				m.shim = !m.shim
				m.hadShim = true
			},
			"forget": func(t *rapid.T) { // the shim's lease is gone
				m := pick(t)
				m.shim, m.hadShim = false, false
			},
			"block": func(t *rapid.T) {
				if m := pick(t); !m.share {
					m.blocked = !m.blocked
				}
			},
			"edit": func(t *rapid.T) {
				if m := pick(t); m.share {
					w.edits++
					m.edit, m.spent = fmt.Sprintf("!%d", w.edits), false
					m.generation++
					w.kinds[m.content()] = w.kind()
				}
			},
			"upgrade": func(*rapid.T) { // new shims have not said yet what runs
				for _, m := range w.machines {
					if m.reported != nil {
						m.reported.generation = -1
					}
				}
			},
			"select": func(t *rapid.T) { m := pick(t); m.selected = !m.selected },
			"refuse": func(t *rapid.T) { m := pick(t); m.refused = !m.refused },
			"remove": func(t *rapid.T) {
				m := pick(t)
				m.there, m.spent = !m.there, false // a Node that is deleted takes up no budget, nor when it is back
			},
			"taint": func(t *rapid.T) { m := pick(t); m.desired = !m.desired },
			"delete": func(t *rapid.T) {
				if m := pick(t); m.share {
					m.ending = true
				}
			},
			"time": func(t *rapid.T) {
				w.now = w.now.Add(time.Duration(rapid.IntRange(1, 60).Draw(t, "seconds")) * time.Second)
			},
			"strategy": func(*rapid.T) { w.strategy = w.anyStrategy() },
			"add": func(t *rapid.T) {
				m := w.add()
				m.selected = rapid.Bool().Draw(t, "selected")
				m.shim = rapid.IntRange(0, 3).Draw(t, "shim") > 0
				m.hadShim = m.shim
				w.lookAt(m)
			},
		})
		w.end()
	})
}

func (w *world) anyStrategy() Strategy {
	return Strategy{
		OnDelete: rapid.IntRange(0, 5).Draw(w.t, "on delete") == 0, Paused: rapid.IntRange(0, 3).Draw(w.t, "paused") == 0,
		MaxUnavailable: rapid.IntRange(1, 4).Draw(w.t, "max unavailable"), Partition: rapid.IntRange(0, 4).Draw(w.t, "partition"),
		MinReady: time.Duration(rapid.SampledFrom([]int{0, 0, 5, 30}).Draw(w.t, "min ready")) * time.Second,
	}
}
