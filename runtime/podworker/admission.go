// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ask has the node decide about the pod that a worker asks for. Workers that came first, and
// ask too, have the first word: who gets what two of them ask for does not depend on which of
// them happens to look first.
func (p *Pool) ask(w *worker) {
	p.admitting.Lock()
	defer p.admitting.Unlock()
	w.asking = true
	for _, other := range p.askers() {
		news := p.decide(other)
		if other == w {
			return
		}
		if news {
			other.wakeUp()
		}
	}
}

// askers are the workers that ask, those that came first first; p.admitting is held.
func (p *Pool) askers() []*worker {
	askers := slices.DeleteFunc(p.all(), func(w *worker) bool { return !w.asking })
	slices.SortFunc(askers, func(a, b *worker) int { return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.id.UID, b.id.UID)) })
	return askers
}

// decide asks the node about what a worker asks for, and says whether the answer is news;
// p.admitting is held.
func (p *Pool) decide(w *worker) bool {
	pod := w.mem.asks()
	if pod == nil {
		w.asking = false
		return false
	}
	refusal := p.cfg.Admit(pod)
	w.asking = refusal != nil
	news := w.mem.decided(pod, refusal)
	if news && refusal != nil {
		w.log.Info("Node does not admit the workload", "reason", refusal.Reason, "message", refusal.Message)
		w.warn(refusal.Reason, refusal.Message)
	}
	return news
}

// withdraw takes back that a worker asks: it waits for something else.
func (p *Pool) withdraw(w *worker) {
	p.admitting.Lock()
	defer p.admitting.Unlock()
	w.asking = false
}

// offer asks the node about a changed template.
func (w *worker) offer(d desired) desired {
	if d.next == nil {
		return d
	}
	w.askNode()
	return w.mem.take()
}

// gaveUp has the node asked again where a worker no longer has a pod that it had.
func (p *Pool) gaveUp(had, has []*corev1.Pod) {
	if slices.ContainsFunc(had, func(pod *corev1.Pod) bool { return !slices.Contains(has, pod) }) {
		p.AskAgain()
	}
}

// AskAgain has the node asked again about all that it has not admitted: something has changed
// that it goes by.
func (p *Pool) AskAgain() {
	for _, w := range p.all() {
		if w.mem.peek().denied != nil {
			w.wakeUp()
		}
	}
}

// Claim is what a workload has of the node, and asks for.
type Claim struct {
	UID types.UID
	// Has are its pods that run, or may be started, and Asks is the one that the node is asked to
	// admit, nil for none.
	Has  []*corev1.Pod
	Asks *corev1.Pod
}

// Claims are those of all workloads.
func (p *Pool) Claims() []Claim {
	var claims []Claim
	for _, w := range p.all() {
		claims = append(claims, Claim{UID: w.id.UID, Has: p.claims(w), Asks: w.mem.asksForPorts()})
	}
	return claims
}

func (p *Pool) claims(w *worker) []*corev1.Pod {
	p.mu.Lock()
	present := slices.Contains(p.present[w.id.key()], w.id.UID)
	p.mu.Unlock()
	return w.mem.claims(present)
}
