// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"

	"pgregory.net/rapid"
)

// end ends the disturbances, and checks where everything goes.
func (w *world) end() {
	w.calm()
	w.roll(good)
	w.arrives()
	w.spoil(noImage)
	w.spoil(crashes)
	w.leave()
	w.hold()
	w.calm()
	w.arrives()
}

// calm ends the disturbances.
func (w *world) calm() {
	for _, m := range w.machines {
		m.there, m.shim, m.hadShim, m.selected, m.desired = true, true, true, true, true
		m.broken, m.refused, m.blocked = false, false, false
	}
	w.strategy = Strategy{MaxUnavailable: w.strategy.MaxUnavailable}
	w.allowed = max(w.allowed, w.strategy.MaxUnavailable)
}

// arrives checks that all nodes run the update in the end.
func (w *world) arrives() {
	w.settle()
	for i, m := range w.machines {
		w.runs(i, w.update)
		if !m.ready {
			w.t.Fatalf("n%d is not ready", i)
		}
	}
}

func (w *world) runs(i int, want string) {
	if m := w.machines[i]; !m.share || m.content() != want || m.runs != want {
		w.t.Fatalf("n%d has %q and runs %q, want %q", i, m.content(), m.runs, want)
	}
}

// spoil rolls out something bad, and reverts it: it reaches as many nodes as the budget
// has, and is gone one batch later. What kills nothing is taken back whatever holds a node.
func (w *world) spoil(k kind) {
	last, reached := w.update, 0
	w.roll(k)
	w.settle()
	for i, m := range w.machines {
		if m.spec == w.update {
			reached++
		}
		if k == noImage && (m.runs != last || !m.ready) {
			w.t.Fatalf("n%d lost its containers to an image that does not exist", i)
		}
	}
	if reached > w.strategy.MaxUnavailable {
		w.t.Fatalf("something bad reached %d nodes, with a budget of %d", reached, w.strategy.MaxUnavailable)
	}
	w.to(last)
	if k == noImage {
		w.obstruct()
	}
	w.look()
	w.plan()
	for i, m := range w.machines {
		if m.spec != last {
			w.t.Fatalf("n%d has %q one batch after the revert", i, m.spec)
		}
	}
	w.newcomer(last)
	w.calm()
	w.arrives()
}

// newcomer adds a node that is held, and checks what it gets.
func (w *world) newcomer(want string) {
	w.add().selected = false
	deleted := w.strategy.OnDelete && !w.strategy.Paused
	if deleted {
		want = w.update
	}
	w.look()
	w.plan()
	w.step()
	w.runs(len(w.machines)-1, want)
}

// leave lets shims go away before they carried out a revision: they keep no other node
// from the next one.
func (w *world) leave() {
	w.roll(noImage)
	w.settle()
	for _, m := range w.machines {
		m.shim = m.spec != w.update
	}
	w.roll(good)
	w.settle()
	for i, m := range w.machines {
		if m.shim {
			w.runs(i, w.update)
		}
	}
	w.calm()
	w.arrives()
}

// obstruct keeps the update from any nodes.
func (w *world) obstruct() {
	free := rapid.Bool().Draw(w.t, "free")
	away := rapid.SampledFrom([]int{1, 5}).Draw(w.t, "away")
	if !free {
		w.strategy = w.anyStrategy()
		w.allowed = max(w.allowed, w.strategy.MaxUnavailable)
	}
	for _, m := range w.machines {
		m.selected = free || rapid.IntRange(0, 4).Draw(w.t, "selected") > 0
		m.shim = rapid.IntRange(0, away).Draw(w.t, "shim") > 0
	}
}

// hold rolls out something good while persons hold nodes, and others cannot have it: the
// rest gets it.
func (w *world) hold() {
	last := w.update
	w.obstruct()
	for _, m := range w.machines {
		m.desired = rapid.IntRange(0, 5).Draw(w.t, "desired") > 0
		m.refused = rapid.IntRange(0, 5).Draw(w.t, "refused") == 0
	}
	w.roll(good)
	w.settle()
	in := w.input()
	kept, current, has := kept(in), last, map[string]int{}
	complete := true
	for i, m := range w.machines {
		want := w.update
		if isHeld(in, &in.Nodes[i], kept[i]) || !m.shim || m.refused {
			want = last
		}
		w.runs(i, want)
		complete = complete && (want == w.update || !m.shim)
		has[want]++
	}
	if complete && has[w.update] > 0 {
		current = w.update
	}
	w.newcomer(current)
	w.again(last, current)
}

// again pauses, and gives the workload one more template: new nodes get what most have.
func (w *world) again(last, current string) {
	middle, has := w.update, map[string]int{}
	for _, m := range w.machines {
		has[m.spec]++
	}
	for _, hash := range []string{last, middle} {
		if 2*has[hash] > len(w.machines) {
			current = hash
		}
	}
	w.strategy.Paused = true
	w.to(fmt.Sprintf("r%d-%d", len(w.revisions), good))
	w.newcomer(current)
}
