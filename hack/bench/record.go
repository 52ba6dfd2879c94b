// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"sync"

	"github.com/managedworkload/managedworkload/hack/criproxy"
)

// recorder stands between the shim and the runtime and keeps the calls.
type recorder struct {
	proxy *criproxy.Proxy

	mu    sync.Mutex
	calls []criproxy.Call
}

// record serves on a socket, in front of the runtime at an endpoint.
func record(socket, endpoint string) (*recorder, error) {
	proxy, err := criproxy.Start(socket, endpoint)
	if err != nil {
		return nil, err
	}
	r := &recorder{proxy: proxy}
	proxy.Observe(func(c criproxy.Call) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.calls = append(r.calls, c)
	})
	return r, nil
}

// take returns the calls since the last take, in the order of their beginning.
func (r *recorder) take() []criproxy.Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := r.calls
	r.calls = nil
	slices.SortStableFunc(calls, func(a, b criproxy.Call) int { return a.Began.Compare(b.Began) })
	return calls
}

// changes reports whether a call changes something in the runtime.
func changes(c criproxy.Call) bool {
	switch c.Method {
	case "RunPodSandbox", "CreateContainer", "StartContainer", "ExecSync",
		"StopContainer", "StopPodSandbox", "RemoveContainer", "RemovePodSandbox":
		return true
	default:
		return false
	}
}
