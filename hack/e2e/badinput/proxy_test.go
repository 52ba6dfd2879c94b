// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package badinput

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// criProxy hands every CRI call on to containerd, except for one at a time that
// it lets hang until the caller gives up.
type criProxy struct {
	runtime *grpc.ClientConn

	mu   sync.Mutex
	next *swallowed
}

// swallowed is a call that is to hang.
type swallowed struct {
	method, about string
	// taken is closed when the call came in, ended when its caller gave up.
	taken, ended chan struct{}
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

const maxMessage = 16 << 20

// startProxy serves on a socket until the test binary ends.
func startProxy(socket, endpoint string) (*criProxy, error) {
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(rawCodec{}), grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	p := &criProxy{runtime: conn}
	server := grpc.NewServer(grpc.ForceServerCodec(rawCodec{}), grpc.UnknownServiceHandler(p.handle), grpc.MaxRecvMsgSize(maxMessage))
	go func() { _ = server.Serve(listener) }() // until the process ends
	return p, nil
}

// swallow lets the next call of a method whose request holds a text hang.
func (p *criProxy) swallow(method, about string) *swallowed {
	s := &swallowed{method: method, about: about, taken: make(chan struct{}), ended: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = s
	return s
}

func (p *criProxy) take(method string, request []byte) *swallowed {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.next
	if s == nil || s.method != path.Base(method) || !bytes.Contains(request, []byte(s.about)) {
		return nil
	}
	p.next = nil
	return s
}

// handle serves any method: all of the CRI's take one message.
func (p *criProxy) handle(_ any, caller grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(caller)
	var request frame
	if err := caller.RecvMsg(&request); err != nil {
		return err
	}
	if s := p.take(method, request.data); s != nil {
		close(s.taken)
		<-caller.Context().Done()
		close(s.ended)
		return status.FromContextError(caller.Context().Err()).Err()
	}
	return p.handOn(caller.Context(), method, &request, caller)
}

func (p *criProxy) handOn(ctx context.Context, method string, request *frame, caller grpc.ServerStream) error {
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
