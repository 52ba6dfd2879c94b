// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package criproxy

import (
	"context"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// fakeRuntime counts stops and has an event stream that lasts.
type fakeRuntime struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	stops atomic.Int32
}

func (f *fakeRuntime) StopContainer(context.Context, *runtimeapi.StopContainerRequest) (*runtimeapi.StopContainerResponse, error) {
	f.stops.Add(1)
	return &runtimeapi.StopContainerResponse{}, nil
}

func (f *fakeRuntime) ContainerStatus(_ context.Context, r *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error) {
	return &runtimeapi.ContainerStatusResponse{Status: &runtimeapi.ContainerStatus{Id: r.ContainerId, State: runtimeapi.ContainerState_CONTAINER_RUNNING}}, nil
}

func (f *fakeRuntime) GetContainerEvents(_ *runtimeapi.GetEventsRequest, stream runtimeapi.RuntimeService_GetContainerEventsServer) error {
	if err := stream.Send(&runtimeapi.ContainerEventResponse{ContainerId: "one"}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

func start(t *testing.T) (*Proxy, *fakeRuntime, runtimeapi.RuntimeServiceClient) {
	t.Helper()
	dir := t.TempDir()
	listener, err := net.Listen("unix", filepath.Join(dir, "r.sock"))
	if err != nil {
		t.Fatal(err)
	}
	fake, server := &fakeRuntime{}, grpc.NewServer()
	runtimeapi.RegisterRuntimeServiceServer(server, fake)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	proxy, err := Start(filepath.Join(dir, "p.sock"), "unix://"+filepath.Join(dir, "r.sock"))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient("unix://"+filepath.Join(dir, "p.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		if err := proxy.Close(); err != nil {
			t.Error(err)
		}
	})
	return proxy, fake, runtimeapi.NewRuntimeServiceClient(conn)
}

func TestRules(t *testing.T) {
	tests := map[string]struct {
		effect    Effect
		wantStops int32
		wantCode  codes.Code
	}{
		"watch":      {Watch, 1, codes.OK},
		"fail":       {Fail, 0, codes.Unavailable},
		"fail after": {FailAfter, 1, codes.Unavailable},
		"twice":      {Twice, 2, codes.OK},
		"hang":       {Hang, 0, codes.DeadlineExceeded},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			proxy, fake, client := start(t)
			rule := NewRule(tt.effect, 1, "StopContainer")
			proxy.Add(rule)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			_, err := client.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: "c"})
			if status.Code(err) != tt.wantCode || fake.stops.Load() != tt.wantStops {
				t.Errorf("%v after %d stops, want %s after %d", err, fake.stops.Load(), tt.wantCode, tt.wantStops)
			}
			if rule.Taken() != 1 {
				t.Errorf("the rule took %d calls", rule.Taken())
			}
			if _, err := client.StopContainer(t.Context(), &runtimeapi.StopContainerRequest{}); err != nil {
				t.Errorf("the call after it: %v", err)
			}
		})
	}
}

func TestHangEndsWithTheRule(t *testing.T) {
	proxy, fake, client := start(t)
	rule := NewRule(Hang, 0)
	proxy.Add(rule)
	answered := make(chan error, 1)
	go func() {
		_, err := client.StopContainer(t.Context(), &runtimeapi.StopContainerRequest{})
		answered <- err
	}()
	rule.Await(t.Context())
	proxy.Remove(rule)
	if err := <-answered; err != nil || fake.stops.Load() != 1 {
		t.Errorf("%v after %d stops", err, fake.stops.Load())
	}
}

func TestRewrite(t *testing.T) {
	proxy, fake, client := start(t)
	rule := NewRule(Rewrite, 1, "ContainerStatus")
	rule.Change = func(method string, answer []byte) []byte {
		var r runtimeapi.ContainerStatusResponse
		if err := proto.Unmarshal(answer, &r); err != nil || method != "ContainerStatus" || r.Status.Id != "c" {
			t.Errorf("%s answers %v, %v", method, &r, err)
		}
		r.Status.State = runtimeapi.ContainerState_CONTAINER_UNKNOWN
		changed, err := proto.Marshal(&r)
		if err != nil {
			t.Error(err)
		}
		return changed
	}
	proxy.Add(rule)
	for _, want := range []runtimeapi.ContainerState{runtimeapi.ContainerState_CONTAINER_UNKNOWN, runtimeapi.ContainerState_CONTAINER_RUNNING} {
		r, err := client.ContainerStatus(t.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: "c"})
		if err != nil || r.Status.State != want {
			t.Errorf("%v, %v, want %s", r, err, want)
		}
	}
	if _, err := client.StopContainer(t.Context(), &runtimeapi.StopContainerRequest{ContainerId: "c"}); err != nil || fake.stops.Load() != 1 {
		t.Errorf("another call: %v, %d stops", err, fake.stops.Load())
	}
}

func TestCutEvents(t *testing.T) {
	proxy, _, client := start(t)
	open := func() (runtimeapi.RuntimeService_GetContainerEventsClient, error) {
		stream, err := client.GetContainerEvents(t.Context(), &runtimeapi.GetEventsRequest{})
		if err != nil {
			return nil, err
		}
		_, err = stream.Recv()
		return stream, err
	}
	stream, err := open()
	if err != nil {
		t.Fatal(err)
	}
	proxy.CutEvents(true)
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the stream that was cut: %v", err)
	}
	if _, err := open(); status.Code(err) != codes.Unavailable {
		t.Errorf("a stream while they are refused: %v", err)
	}
	proxy.AcceptEvents()
	if _, err := open(); err != nil {
		t.Errorf("a stream afterwards: %v", err)
	}
}
