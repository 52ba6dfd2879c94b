// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"errors"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/hack/criproxy"
	"github.com/managedworkload/managedworkload/hack/faults/history"
)

// calls keeps what the shim asked of the runtime that starts or ends containers.
type calls struct {
	mu  sync.Mutex
	all []history.Call
}

// take keeps a call; one whose messages cannot be read says nothing.
func (c *calls) take(call criproxy.Call) {
	kept := history.Call{
		Method: call.Method, Began: call.Began, Made: call.Made, Ended: call.Ended,
		Done: !call.Made.IsZero() && call.Err == nil,
		// A caller that is gone, or gives up, gets no answer.
		Refused: call.Effect == criproxy.Fail || call.Effect == criproxy.FailAfter ||
			call.Err != nil && status.Code(call.Err) != codes.Canceled,
	}
	if !readMessages(call, &kept) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, kept)
}

// list returns the calls in the order of their beginning.
func (c *calls) list() []history.Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := slices.Clone(c.all)
	slices.SortStableFunc(list, func(a, b history.Call) int { return a.Began.Compare(b.Began) })
	return list
}

// readMessages reads what a call is about, and reports whether it starts or ends containers, and
// its messages can be read.
func readMessages(call criproxy.Call, kept *history.Call) bool {
	var err error
	switch call.Method {
	case "RunPodSandbox": // without an answer it has no ID
		answer := &runtimeapi.RunPodSandboxResponse{}
		err = proto.Unmarshal(call.Answer, answer)
		kept.Sandbox = answer.GetPodSandboxId()
	case "CreateContainer":
		request, answer := &runtimeapi.CreateContainerRequest{}, &runtimeapi.CreateContainerResponse{}
		err = errors.Join(proto.Unmarshal(call.Request, request), proto.Unmarshal(call.Answer, answer))
		kept.Container, kept.Sandbox = answer.GetContainerId(), request.GetPodSandboxId()
	case "StopContainer":
		request := &runtimeapi.StopContainerRequest{}
		err = proto.Unmarshal(call.Request, request)
		kept.Container, kept.Timeout = request.GetContainerId(), time.Duration(request.GetTimeout())*time.Second
	case "StartContainer", "RemoveContainer", "ExecSync":
		request := &runtimeapi.StartContainerRequest{} // all have the ID as their first field
		err = proto.Unmarshal(call.Request, request)
		kept.Container = request.GetContainerId()
	case "StopPodSandbox", "RemovePodSandbox":
		request := &runtimeapi.RemovePodSandboxRequest{} // both have the ID as their first field
		err = proto.Unmarshal(call.Request, request)
		kept.Sandbox = request.GetPodSandboxId()
	default:
		return false
	}
	return err == nil
}
