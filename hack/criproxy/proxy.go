// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package criproxy stands between a shim and its container runtime. It passes
// every call on as it is, except those that a Rule is waiting for.
package criproxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

const (
	// eventsMethod is the only call that lasts.
	eventsMethod = "GetContainerEvents"
	maxMessage   = 16 << 20
)

// Proxy serves one socket.
type Proxy struct {
	runtime *grpc.ClientConn
	server  *grpc.Server
	done    chan struct{}

	mu      sync.Mutex
	rules   []*Rule
	streams map[int]context.CancelFunc
	opened  int
	refuse  bool
	observe func(Call)
}

// Start serves on a socket, in front of the runtime at an endpoint.
func Start(socket, endpoint string) (*Proxy, error) {
	reconnect := backoff.DefaultConfig
	reconnect.BaseDelay, reconnect.MaxDelay = 50*time.Millisecond, 500*time.Millisecond
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: 5 * time.Second}),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(rawCodec{}), grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	p := &Proxy{runtime: conn, done: make(chan struct{}), streams: map[int]context.CancelFunc{}}
	p.server = grpc.NewServer(grpc.ForceServerCodec(rawCodec{}), grpc.UnknownServiceHandler(p.handle), grpc.MaxRecvMsgSize(maxMessage))
	go func() {
		defer close(p.done)
		_ = p.server.Serve(listener) // until Close
	}()
	return p, nil
}

// Close ends every call and stops serving.
func (p *Proxy) Close() error {
	p.server.Stop()
	<-p.done
	return p.runtime.Close()
}

// Add puts a rule in force until it is removed.
func (p *Proxy) Add(r *Rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, r)
}

// Remove ends a rule, and with it what hangs by it.
func (p *Proxy) Remove(r *Rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.rules, r); i >= 0 {
		p.rules = slices.Delete(p.rules, i, i+1)
		close(r.over)
	}
}

// CutEvents ends the event streams; as long as refused, no new one is opened.
func (p *Proxy) CutEvents(refused bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = refused
	for _, cancel := range p.streams {
		cancel()
	}
}

// AcceptEvents lets event streams be opened again.
func (p *Proxy) AcceptEvents() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = false
}

func (p *Proxy) match(method string, request []byte) *Rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.rules {
		if r.takes(method, request) {
			return r
		}
	}
	return nil
}

// handle serves any method: all of the CRI's take one message.
func (p *Proxy) handle(_ any, caller grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(caller)
	var request frame
	if err := caller.RecvMsg(&request); err != nil {
		return err
	}
	if path.Base(method) == eventsMethod {
		return p.events(method, &request, caller)
	}
	return p.observed(p.match(path.Base(method), request.data), method, &request, caller)
}

// events passes the event stream on until it is cut.
func (p *Proxy) events(method string, request *frame, caller grpc.ServerStream) error {
	ctx, cancel := context.WithCancel(caller.Context())
	defer cancel()
	p.mu.Lock()
	refuse := p.refuse
	p.opened++
	id := p.opened
	p.streams[id] = cancel
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.streams, id)
	}()
	if refuse {
		return status.Error(codes.Unavailable, "fault: no events")
	}
	err := p.handOn(ctx, method, request, caller)
	if ctx.Err() != nil && caller.Context().Err() == nil {
		return status.Error(codes.Unavailable, "fault: the event stream was cut")
	}
	return err
}

func (p *Proxy) handOn(ctx context.Context, method string, request *frame, caller grpc.ServerStream) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := p.runtime.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method)
	if err != nil {
		return err
	}
	if err := errors.Join(stream.SendMsg(request), stream.CloseSend()); err != nil {
		return err
	}
	for {
		var answer frame
		err := stream.RecvMsg(&answer)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err // with the runtime's own status
		}
		if err := caller.SendMsg(&answer); err != nil {
			return err
		}
	}
}

// frame is a message as it is on the wire.
type frame struct{ data []byte }

// rawCodec passes frames on without looking into them.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) ([]byte, error) {
	f, ok := v.(*frame)
	if !ok {
		return nil, fmt.Errorf("cannot send a %T", v)
	}
	return f.data, nil
}

func (rawCodec) Unmarshal(data []byte, v any) error {
	f, ok := v.(*frame)
	if !ok {
		return fmt.Errorf("cannot receive a %T", v)
	}
	f.data = bytes.Clone(data)
	return nil
}
