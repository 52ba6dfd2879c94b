// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/managedworkload/managedworkload/runtime/httpaction"
)

// probeGRPC asks the gRPC health service of the container; the connection and the
// call share the timeout. (pkg/probe/grpc/grpc.go)
func probeGRPC(ctx context.Context, t target) outcome {
	ctx, cancel := context.WithTimeout(ctx, t.timeout())
	defer cancel()
	address := net.JoinHostPort(t.ip, strconv.Itoa(int(t.spec.GRPC.Port)))
	conn, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithUserAgent(httpaction.ProbeUserAgent),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return dialer(0).DialContext(ctx, "tcp", address)
		}))
	if err != nil {
		return outcome{state: failed, output: fmt.Sprintf("error: failed to connect service at %q: %+v", address, err), brief: brief(err)}
	}
	defer conn.Close() //nolint:errcheck // nothing is sent on it any more
	if err := connect(ctx, conn); err != nil {
		return outcome{
			state:  failed,
			output: fmt.Sprintf("timeout: failed to connect service %q within %v: %+v", address, t.timeout(), err),
			brief:  "timeout",
		}
	}
	service := ""
	if t.spec.GRPC.Service != nil {
		service = *t.spec.GRPC.Service
	}
	response, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: service})
	if err != nil {
		return callFailed(t, err)
	}
	if s := response.GetStatus(); s != grpc_health_v1.HealthCheckResponse_SERVING {
		return outcome{state: failed, output: fmt.Sprintf("service unhealthy (responded with %q)", s), brief: "gRPC " + s.String()}
	}
	return outcome{state: succeeded}
}

func callFailed(t target, err error) outcome {
	out := outcome{state: failed}
	switch s := status.Convert(err); s.Code() {
	case codes.Unimplemented:
		out.brief = "no gRPC health service"
		out.output = "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): " + s.Message()
	case codes.DeadlineExceeded:
		out.brief = "timeout"
		out.output = fmt.Sprintf("timeout: health rpc did not complete within %v", t.timeout())
	default:
		out.brief = "gRPC " + s.Code().String()
		out.output = fmt.Sprintf("error: health rpc probe failed: %+v", err)
	}
	return out
}

// connect waits until the connection is there, or the context has ended.
func connect(ctx context.Context, conn *grpc.ClientConn) error {
	for {
		state := conn.GetState()
		switch state {
		case connectivity.Ready:
			return nil
		case connectivity.Idle:
			conn.Connect()
		case connectivity.Connecting, connectivity.TransientFailure, connectivity.Shutdown:
		}
		if !conn.WaitForStateChange(ctx, state) {
			return ctx.Err()
		}
	}
}
