// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fakecri

import (
	"context"
	"errors"
	"net"
	"path"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Conn is a connection to the runtime in the same process: it calls gRPC's own
// handlers of CRI, and both ends have messages of their own.
type Conn struct{ Runtime Server }

var _ grpc.ClientConnInterface = Conn{}

// Server is a Runtime, or something around one.
type Server interface {
	runtimeapi.RuntimeServiceServer
	runtimeapi.ImageServiceServer
	mayHang(ctx context.Context, method string, request any) error
}

// Invoke calls a method. Errors stay as they are, also those without a code.
func (c Conn) Invoke(ctx context.Context, method string, args, reply any, _ ...grpc.CallOption) error {
	handler := handlerOf(path.Base(method))
	if handler == nil {
		return status.Errorf(codes.Unimplemented, "unknown method %s", method)
	}
	if err := ctx.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	if err := c.Runtime.mayHang(ctx, method, args); err != nil {
		return err
	}
	response, err := handler(c.Runtime, ctx, func(request any) error {
		proto.Merge(request.(proto.Message), args.(proto.Message))
		return nil
	}, nil)
	if err != nil {
		return err
	}
	proto.Merge(reply.(proto.Message), response.(proto.Message))
	return nil
}

// NewStream is refused: the runtime has no events.
func (Conn) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, errors.New("the runtime has no streams")
}

func handlerOf(method string) grpc.MethodHandler {
	for _, service := range []*grpc.ServiceDesc{&runtimeapi.RuntimeService_ServiceDesc, &runtimeapi.ImageService_ServiceDesc} {
		for _, m := range service.Methods {
			if m.MethodName == method {
				return m.Handler
			}
		}
	}
	return nil
}

// Dial serves the runtime over gRPC, on a connection in memory, which can be
// waited for on a virtual clock. stop ends both ends.
func Dial(r *Runtime) (conn *grpc.ClientConn, stop func(), err error) {
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer()
	runtimeapi.RegisterRuntimeServiceServer(server, r)
	runtimeapi.RegisterImageServiceServer(server, r)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	conn, err = grpc.NewClient("passthrough:///runtime", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(r.intercept),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		server.Stop()
		return nil, nil, err
	}
	return conn, func() {
		_ = conn.Close()
		server.Stop()
		<-done
	}, nil
}
