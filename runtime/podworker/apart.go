// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"cmp"
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/panics"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// parts are what plan.Actions.Apart has taken from plans: kills of single containers, each with the
// starts that follow. They are carried out beside the steps of the worker, which continues with the
// other containers meanwhile.
type parts struct {
	list []*part
	// recent are those that have just ended.
	recent []*part
	// errs are why containers could not be killed, by name, until they are.
	errs map[string]string
	// failures is how often the kill of a container has failed since it worked, by name.
	failures map[string]int
}

// part is one of them. All but done, outcome and err belongs to the goroutine of the worker.
type part struct {
	names map[string]bool
	// wanted is the pod of the template by which it was planned.
	wanted  *corev1.Pod
	request plan.SyncRequest
	// open are kills that an earlier process began: they are finished, and nothing is started.
	open []plan.KillProgress
	// backoff and actuated are as the part found them.
	backoff  map[string]*plan.Backoff
	actuated map[string]plan.Resources
	cancel   context.CancelFunc
	// done is closed when outcome and err are there.
	done    chan struct{}
	outcome plan.SyncOutcome
	err     error
	// ended: the outcome was taken over, at that time. Containers whose kill, or start, has failed
	// are left alone until then, unless the template changes.
	ended   bool
	endedAt time.Time
	until   time.Time
}

// beginPart has a part carried out. The same once more is not done in a hurry.
func (s *syncer) beginPart(ctx context.Context, d desired, in plan.Input, actions plan.Actions) {
	p := &part{names: map[string]bool{}, wanted: d.pod, request: s.request(d, in, actions), done: make(chan struct{})}
	p.request.Beside = true
	for _, k := range actions.ContainersToKill {
		p.names[k.Name] = true
	}
	for _, c := range actions.Started(in.Pod) {
		p.names[c.Name] = true
	}
	if i := slices.IndexFunc(s.parts.recent, func(r *part) bool { return reflect.DeepEqual(r.request.Actions, actions) }); i >= 0 {
		p.ended, p.until = true, s.parts.recent[i].endedAt.Add(repeatDelay)
		s.parts.list = append(s.parts.list, p)
		return
	}
	p.backoff, p.actuated = maps.Clone(p.request.Backoff), maps.Clone(p.request.Actuated)
	s.carryOutPart(ctx, p, func(ctx context.Context) error {
		p.outcome = s.cfg.Executor.SyncPod(ctx, p.request)
		return nil
	})
}

func (s *syncer) carryOutPart(ctx context.Context, p *part, do func(context.Context) error) {
	ctx, p.cancel = context.WithCancel(ctx)
	s.parts.list = append(s.parts.list, p)
	go func() {
		defer s.wakeUp()
		defer close(p.done)
		p.err = panics.Contain(s.log, "killing containers", func() error { return do(ctx) })
	}()
}

// over is whether nothing of the part is under way any more.
func (p *part) over() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// underWay names the containers of all parts.
func (p *parts) underWay() map[string]bool {
	if len(p.list) == 0 {
		return nil
	}
	names := map[string]bool{}
	for _, part := range p.list {
		maps.Copy(names, part.names)
	}
	return names
}

// busy is whether kills, or the starts after them, are under way.
func (p *parts) busy() bool {
	return slices.ContainsFunc(p.list, func(p *part) bool { return !p.ended })
}

// forAnother reports that kills under way were planned for another template than that of pod.
func (p *parts) forAnother(pod *corev1.Pod) bool {
	return slices.ContainsFunc(p.list, func(part *part) bool { return !part.ended && part.wanted != nil && part.wanted != pod })
}

// cancel ends the starts of all parts; their kills continue.
func (p *parts) cancel() {
	for _, part := range p.list {
		if !part.ended {
			part.cancel()
		}
	}
}

// wait waits for the end of all parts.
func (p *parts) wait() {
	for _, part := range p.list {
		if !part.ended {
			<-part.done
		}
	}
}

// killError is why containers could not be killed; empty if all could.
func (p *parts) killError() string {
	return strings.Join(slices.Compact(slices.Sorted(maps.Values(p.errs))), "; ")
}

// takeOver takes over what has become of parts that have ended. It comes before a look at the
// runtime, so that what is looked at is not older.
func (s *syncer) takeOver(d desired) {
	for _, p := range s.parts.list {
		switch {
		case p.ended || !p.over():
		case p.open != nil:
			s.takeResumed(p)
		default:
			s.takePart(p)
		}
	}
	s.parts.recent = slices.DeleteFunc(s.parts.recent, func(p *part) bool { return time.Since(p.endedAt) >= repeatDelay })
	s.parts.list = slices.DeleteFunc(s.parts.list, func(p *part) bool {
		over := p.ended && (p.request.Pod != d.pod || !time.Now().Before(p.until))
		if over {
			s.resume = append(s.resume, p.open...)
		}
		return over
	})
}

func (s *syncer) takePart(p *part) {
	p.ended, p.endedAt = true, time.Now()
	s.parts.recent = append(s.parts.recent, p)
	p.cancel()
	outcome := p.outcome
	s.keepBackoff(merged(s.mem.backoff(), p.backoff, p.request.Backoff))
	// What the part found says nothing of containers that were started since; the next sync of a step
	// drops what does not run.
	s.mem.keepActuated(merged(copyActuated(s.mem.actuated()), p.actuated, p.request.Actuated))
	s.pulls.spent(p.request.Pod, p.request.Actions.Images, outcome)
	if p.request.Actions.Resizes() {
		s.resize.failed = outcome.ResizeError
	}
	s.remember(outcome)
	s.parts.noteErrors(p)
	s.mem.setKillError(s.parts.killError())
	if delay := s.retryPart(p); delay > 0 {
		p.until = time.Now().Add(delay)
		s.log.Error(cmp.Or(p.err, outcome.Err), "Failed to carry out kills; retrying", "in", delay.Round(time.Millisecond).String())
	}
}

// retryPart is when the containers of a part that has failed are looked at again; 0 if it has not.
// Those whose kill has worked are not left alone until then.
func (s *syncer) retryPart(p *part) time.Duration {
	if p.outcome.KillError != "" {
		if errs := s.parts.errs; slices.ContainsFunc(slices.Collect(maps.Keys(p.names)), func(name string) bool { return errs[name] != "" }) {
			maps.DeleteFunc(p.names, func(name string, _ bool) bool { return errs[name] == "" })
		}
		return killRetryAfter(s.parts.noteFailure(p))
	}
	s.killFailures = 0
	if p.err == nil && p.outcome.Err == nil {
		return 0
	}
	delay := jitter(errorDelay)
	if !p.outcome.BackoffUntil.IsZero() {
		delay = min(delay, max(time.Millisecond, s.until(p.outcome.BackoffUntil)))
	}
	return delay
}

// noteFailure counts a failure of the containers of a part, and is how often the worst of them has failed.
func (p *parts) noteFailure(failed *part) (worst int) {
	if p.failures == nil {
		p.failures = map[string]int{}
	}
	for name := range failed.names {
		p.failures[name]++
		worst = max(worst, p.failures[name])
	}
	return worst
}

// noteErrors notes why containers of a part could not be killed.
func (p *parts) noteErrors(ended *part) {
	maps.DeleteFunc(p.errs, func(name, _ string) bool { return ended.names[name] })
	defer p.forgetFailures()
	if ended.outcome.KillError == "" && (ended.open == nil || ended.err == nil) {
		return
	}
	if p.errs == nil {
		p.errs = map[string]string{}
	}
	for _, k := range ended.open {
		p.errs[k.Record.Container] = ended.err.Error()
	}
	for _, k := range ended.request.Actions.ContainersToKill {
		i := slices.IndexFunc(ended.outcome.Results, func(r plan.Result) bool {
			return r.Action == plan.ActionKillContainer && r.Target == k.Name && r.Err != nil
		})
		if i >= 0 {
			p.errs[k.Name] = k.Name + ": " + ended.outcome.Results[i].Message
		} else if len(ended.outcome.Results) == 0 {
			p.errs[k.Name] = ended.outcome.KillError
		}
	}
}

// dropErrors forgets the containers that could not be killed and need not be any more: a plan has not
// asked for it again.
func (p *parts) dropErrors() {
	names := p.underWay()
	maps.DeleteFunc(p.errs, func(name, _ string) bool { return !names[name] })
	p.forgetFailures()
}

// forgetFailures keeps the counts of containers that could not be killed.
func (p *parts) forgetFailures() {
	maps.DeleteFunc(p.failures, func(name string, _ int) bool { return p.errs[name] == "" })
}

// again is when the parts are looked at again: at once when one has ended meanwhile, whose wake an
// operation may have answered, or when the first that has failed is tried again.
func (p *parts) again() (time.Duration, bool) {
	left, found := time.Duration(0), false
	for _, part := range p.list {
		switch l := max(0, time.Until(part.until)); {
		case !part.ended && part.over():
			return 0, true
		case part.ended && (!found || l < left):
			left, found = l, true
		}
	}
	return left, found
}

// noteStartedByParts notes what parts have started from a template that has changed since: an
// instance is probed, and reported, by what it was made from.
func (s *syncer) noteStartedByParts(observed *plan.PodStatus) {
	for _, p := range slices.Concat(s.parts.recent, s.parts.list) {
		for name := range p.names {
			c, status := podspec.Container(p.request.Pod, name), observed.Current(name)
			if c == nil || status == nil || s.made[status.ID] != nil || plan.Redefined(c, status) {
				continue
			}
			if s.made == nil {
				s.made = plan.Made{}
			}
			s.made[status.ID] = c
		}
	}
}

// merged returns the latest entries with what a part has changed of those that it found.
func merged[V comparable](latest, found, left map[string]V) map[string]V {
	for key := range found {
		if _, kept := left[key]; !kept {
			delete(latest, key)
		}
	}
	for key, value := range left {
		if before, known := found[key]; !known || before != value {
			latest[key] = value
		}
	}
	return latest
}

// endParts ends what is under way beside the steps, before the whole workload ends: starts are
// aborted, and kills have no more time than the end leaves.
func (s *scope) endParts(ctx context.Context, d desired) {
	if len(s.parts.list) == 0 {
		return
	}
	hurry := func(d desired) {
		s.parts.cancel()
		if d.pod != nil && d.ends() {
			s.cfg.Executor.Shorten(s.id.UID, s.endGrace(d))
		}
	}
	hurry(d)
	begun := time.Now()
	attend(ctx, s.wake,
		func(context.Context) { s.parts.wait() },
		func(func()) {
			now := s.mem.peek()
			hurry(now)
			s.cfg.Executor.NoteExits(ctx, s.id.UID)
			s.refresh(ctx, now, begun)
		})
	for _, p := range s.parts.list {
		s.resume = append(s.resume, s.leftOpen(p)...)
	}
	s.parts = parts{}
}
