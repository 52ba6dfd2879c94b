// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fakecri

import (
	"context"
	"path"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Hang is the kind of failure of a call that the runtime never answers: it ends
// with the deadline that the agent gave it.
const Hang = "Hang"

// mayHang stands before every call, on the agent's side: on a virtual clock it is
// chance which side of a connection sees the deadline first, and they have words of
// their own for it.
func (r *Runtime) mayHang(ctx context.Context, method string, request any) error {
	if !r.hangs(path.Base(method), request) {
		return nil
	}
	<-ctx.Done()
	return status.FromContextError(ctx.Err()).Err()
}

func (r *Runtime) intercept(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn,
	invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	if err := r.mayHang(ctx, method, request); err != nil {
		return err
	}
	return invoke(ctx, method, request, reply, conn, options...)
}

// hangs reports whether a call hangs, and records it if it does.
func (r *Runtime) hangs(method string, request any) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	name, id := "", ""
	switch request := request.(type) {
	case *runtimeapi.CreateContainerRequest:
		name = request.GetConfig().GetMetadata().GetName()
	case interface{ GetContainerId() string }:
		id = request.GetContainerId()
		if c, err := r.find(id); err == nil {
			name = c.Name
		}
	}
	if kind, _ := r.fail(method, name); kind != Hang {
		return false
	}
	r.record("Hang", name, "%s %s", method, id)
	return true
}
