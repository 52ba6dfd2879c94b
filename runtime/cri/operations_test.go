// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"errors"
	"sync"
	"testing"
	"time"
)

// Each call is observed with the kubelet's name of the operation, and its error.
func TestObserver(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	failed := map[string]int{}
	f, c := newFake(t, func(config *Config) {
		config.Observe = func(operation string, took time.Duration, err error) {
			mu.Lock()
			defer mu.Unlock()
			if took < 0 {
				t.Error(took)
			}
			if failed[operation] += 0; err != nil {
				failed[operation]++
			}
		}
	})
	f.fail["ListContainers"] = errors.New("no answer")
	if _, err := c.ListPods(t.Context()); err == nil {
		t.Error("no error")
	}
	mu.Lock()
	defer mu.Unlock()
	if n, seen := failed["list_podsandbox"]; !seen || n != 0 || failed["list_containers"] != 1 {
		t.Errorf("observed %v", failed)
	}
}

func TestOperation(t *testing.T) {
	for method, want := range map[string]string{
		"/runtime.v1.RuntimeService/RunPodSandbox": "run_podsandbox", "/runtime.v1.RuntimeService/ExecSync": "exec_sync",
		"/runtime.v1.RuntimeService/PodSandboxStatus": "podsandbox_status", "/runtime.v1.ImageService/PullImage": "pull_image",
	} {
		if got := operation(method); got != want {
			t.Errorf("%s: %s, want %s", method, got, want)
		}
	}
}
