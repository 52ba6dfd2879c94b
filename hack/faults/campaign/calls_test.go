// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/hack/criproxy"
	"github.com/managedworkload/managedworkload/hack/faults/history"
)

func TestCallsKeepWhatStartsAndEndsContainers(t *testing.T) {
	wire := func(m proto.Message) []byte {
		data, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	now := time.Now()
	stop := wire(&runtimeapi.StopContainerRequest{ContainerId: "c", Timeout: 3})
	c := &calls{}
	for i, call := range []criproxy.Call{
		{Method: "RunPodSandbox", Made: now, Answer: wire(&runtimeapi.RunPodSandboxResponse{PodSandboxId: "s"})},
		{Method: "RunPodSandbox", Made: now, Err: status.Error(codes.Canceled, "")},
		{
			Method: "CreateContainer", Made: now, Request: wire(&runtimeapi.CreateContainerRequest{PodSandboxId: "s"}),
			Answer: wire(&runtimeapi.CreateContainerResponse{ContainerId: "c"}),
		},
		{Method: "ExecSync", Made: now, Request: wire(&runtimeapi.ExecSyncRequest{ContainerId: "c"}), Err: status.Error(codes.Canceled, "")},
		{Method: "ListContainers", Made: now},
		{Method: "StopContainer", Request: stop, Effect: criproxy.Fail},
		{Method: "StopContainer", Made: now, Request: stop, Effect: criproxy.FailAfter},
		{Method: "StopContainer", Made: now, Request: stop, Err: status.Error(codes.Unavailable, "")},
		{Method: "RemoveContainer", Made: now, Request: wire(&runtimeapi.RemoveContainerRequest{ContainerId: "c"})},
		{Method: "StopPodSandbox", Made: now, Request: wire(&runtimeapi.StopPodSandboxRequest{PodSandboxId: "s"})},
		{Method: "RemovePodSandbox", Made: now, Request: wire(&runtimeapi.RemovePodSandboxRequest{PodSandboxId: "s"})},
	} {
		call.Began = now.Add(time.Duration(-i)) // they are kept as they end
		c.take(call)
	}
	var got []history.Call
	for _, call := range c.list() {
		call.Began, call.Made = time.Time{}, time.Time{}
		got = append([]history.Call{call}, got...)
	}
	want := []history.Call{
		{Method: "RunPodSandbox", Sandbox: "s", Done: true},
		{Method: "RunPodSandbox"},
		{Method: "CreateContainer", Container: "c", Sandbox: "s", Done: true},
		{Method: "ExecSync", Container: "c"},
		{Method: "StopContainer", Container: "c", Timeout: 3 * time.Second, Refused: true},
		{Method: "StopContainer", Container: "c", Timeout: 3 * time.Second, Done: true, Refused: true},
		{Method: "StopContainer", Container: "c", Timeout: 3 * time.Second, Refused: true},
		{Method: "RemoveContainer", Container: "c", Done: true},
		{Method: "StopPodSandbox", Sandbox: "s", Done: true},
		{Method: "RemovePodSandbox", Sandbox: "s", Done: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
