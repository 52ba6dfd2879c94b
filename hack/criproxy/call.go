// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package criproxy

import (
	"path"
	"time"

	"google.golang.org/grpc"
)

// Call is a call with one answer that was passed on, with its messages as they
// are on the wire.
type Call struct {
	Method          string
	Request, Answer []byte
	Began, Ended    time.Time
	Err             error
}

// Observe has a function called after each call that no Rule took.
func (p *Proxy) Observe(observe func(Call)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.observe = observe
}

func (p *Proxy) handOnObserved(method string, request *frame, caller grpc.ServerStream) error {
	p.mu.Lock()
	observe := p.observe
	p.mu.Unlock()
	if observe == nil {
		return p.handOn(caller.Context(), method, request, caller)
	}
	answer := &keeper{ServerStream: caller}
	c := Call{Method: path.Base(method), Request: request.data, Began: time.Now()}
	c.Err = p.handOn(caller.Context(), method, request, answer)
	c.Ended, c.Answer = time.Now(), answer.last
	observe(c)
	return c.Err
}

// keeper keeps the last answer that passes.
type keeper struct {
	grpc.ServerStream
	last []byte
}

func (k *keeper) SendMsg(m any) error {
	if f, ok := m.(*frame); ok {
		k.last = f.data
	}
	return k.ServerStream.SendMsg(m)
}
