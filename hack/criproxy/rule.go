// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package criproxy

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Effect is what a rule does to a call.
type Effect string

// The effects.
const (
	// Watch changes nothing: Taken tells that the call came in.
	Watch Effect = "watch"
	// Fail answers with an error and does not make the call.
	Fail Effect = "fail"
	// FailAfter makes the call and answers with an error.
	FailAfter Effect = "fail after"
	// Hang holds the call until the rule is removed or the caller gives up.
	Hang Effect = "hang"
	// Twice makes the call twice, one after the other, and gives the second answer.
	Twice Effect = "twice"
	// Rewrite makes the call and changes its answer.
	Rewrite Effect = "rewrite"
)

// Rule takes calls.
type Rule struct {
	Effect Effect
	// Methods are the names of the calls, such as StopContainer; none means any.
	Methods []string
	// About is a text that the request holds, such as a container's ID.
	About string
	// Most is how many calls it takes; 0 is any number.
	Most int
	// Change returns what a call of a Rewrite answers instead of the runtime's answer,
	// both as they are on the wire. It may be called by many at one time.
	Change func(method string, answer []byte) []byte

	mu    sync.Mutex
	taken int
	first chan struct{}
	over  chan struct{}
	given chan struct{}
}

// NewRule makes a rule for calls of the given names.
func NewRule(effect Effect, most int, methods ...string) *Rule {
	return &Rule{Effect: effect, Most: most, Methods: methods, first: make(chan struct{}), over: make(chan struct{}), given: make(chan struct{}, 1)}
}

// takes reports that the rule takes a call, and counts it.
func (r *Rule) takes(method string, request []byte) bool {
	if len(r.Methods) > 0 && !slices.Contains(r.Methods, method) || !bytes.Contains(request, []byte(r.About)) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Most > 0 && r.taken >= r.Most {
		return false
	}
	r.taken++
	if r.taken == 1 {
		close(r.first)
	}
	return true
}

// apply does to a call what the rule is for. pass makes the call once.
func (r *Rule) apply(ctx context.Context, method string, pass func(grpc.ServerStream) error, caller grpc.ServerStream) error {
	switch r.Effect {
	case Fail:
		return status.Error(codes.Unavailable, "fault: the call was not made")
	case FailAfter:
		_ = pass(&discard{caller})
		return status.Error(codes.Unavailable, "fault: the answer was lost")
	case Hang:
		select {
		case <-ctx.Done():
			r.callerGone()
		case <-r.over:
			return pass(caller)
		}
		return status.FromContextError(ctx.Err()).Err()
	case Twice:
		_ = pass(&discard{caller})
	case Rewrite:
		return pass(&rewriter{ServerStream: caller, method: method, change: r.Change})
	case Watch:
	}
	return pass(caller)
}

// discard drops answers.
type discard struct{ grpc.ServerStream }

func (*discard) SendMsg(any) error { return nil }

// rewriter changes answers.
type rewriter struct {
	grpc.ServerStream
	method string
	change func(method string, answer []byte) []byte
}

func (r *rewriter) SendMsg(m any) error {
	if f, ok := m.(*frame); ok {
		m = &frame{r.change(r.method, f.data)}
	}
	return r.ServerStream.SendMsg(m)
}

// Taken is how many calls the rule took.
func (r *Rule) Taken() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.taken
}

// Await waits for the first call that the rule takes.
func (r *Rule) Await(ctx context.Context) bool {
	select {
	case <-r.first:
		return true
	case <-ctx.Done():
		return false
	}
}

// GivenUp gets a value when a caller gave a hanging call up.
func (r *Rule) GivenUp() <-chan struct{} { return r.given }

// callerGone notes that a caller gave up; once is enough.
func (r *Rule) callerGone() {
	select {
	case r.given <- struct{}{}:
	default:
	}
}
