// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package criproxy

import (
	"path"
	"time"

	"google.golang.org/grpc"
)

// Call is a call with one answer, with its messages as they are on the wire.
type Call struct {
	Method          string
	Request, Answer []byte
	Began, Ended    time.Time
	// Effect is that of the Rule that took the call; "" if none did.
	Effect Effect
	// Made is when the call was passed on to the runtime, zero if it never was, and
	// Err the runtime's answer; of two calls, nil if one of them succeeded.
	Made time.Time
	Err  error
}

// Observe has a function called after each call, also one that a Rule took.
func (p *Proxy) Observe(observe func(Call)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.observe = observe
}

// observed serves a call and has it observed.
func (p *Proxy) observed(r *Rule, method string, request *frame, caller grpc.ServerStream) error {
	p.mu.Lock()
	observe := p.observe
	p.mu.Unlock()
	c := &Call{Method: path.Base(method), Request: request.data, Began: time.Now()}
	if observe != nil {
		defer func() {
			c.Ended = time.Now()
			observe(*c)
		}()
	}
	pass := func(to grpc.ServerStream) error {
		first := c.Made.IsZero()
		if first {
			c.Made = time.Now()
		}
		err := p.handOn(caller.Context(), method, request, &keeper{ServerStream: to, call: c})
		if first || err == nil {
			c.Err = err
		}
		return err
	}
	if r == nil {
		return pass(caller)
	}
	c.Effect = r.Effect
	return r.apply(caller.Context(), c.Method, pass, caller)
}

// keeper keeps the last answer that passes.
type keeper struct {
	grpc.ServerStream
	call *Call
}

func (k *keeper) SendMsg(m any) error {
	if f, ok := m.(*frame); ok {
		k.call.Answer = f.data
	}
	return k.ServerStream.SendMsg(m)
}
