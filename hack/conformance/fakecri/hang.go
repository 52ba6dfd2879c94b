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

// mayHang is between the agent and every handler.
func (r *Runtime) mayHang(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	method := path.Base(info.FullMethod)
	if !r.hangs(method, request) {
		return handler(ctx, request)
	}
	<-ctx.Done()
	return nil, status.FromContextError(ctx.Err()).Err()
}

// hangs tells whether a call hangs, and records it if it does.
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
			name = c.Metadata.GetName()
		}
	}
	if kind, _ := r.fail(method, name); kind != Hang {
		return false
	}
	r.record("Hang", name, "%s %s", method, id)
	return true
}
