// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// scenario is one template and what happens to it, the same on both sides.
type scenario struct {
	name    string
	trigger string // what it is about: a kill trigger, or what else is compared
	spec    corev1.PodSpec
	// meta has the labels and annotations of the template.
	meta metav1.ObjectMeta
	// own is what the side's own objects hold before the start; nil if there are none.
	own map[string]string
	// deletesOwn means that they are deleted while containers have their files.
	deletesOwn bool
	prepare    []string // files that exist in /j before the start
	steps      []step
	// grace is the deletion's own grace period; nil means the template's.
	grace *int64
	// loops tells that container c exits again and again.
	loops bool
	// shorten, when set, is a second deletion's grace period and how long after
	// the first one it comes.
	shorten *shortened
}

type shortened struct {
	after time.Duration
	grace int64
}

// step waits until the status is as wanted, takes a snapshot of it when it has
// settled, and then does something.
type step struct {
	name  string
	until func(*corev1.PodStatus) bool
	do    func(ctx context.Context, p *pairing) error
	// quick takes no snapshot: the state is passed through, and the kubelet may
	// see it later than the shim.
	quick bool
}

// settle is how long a status is left alone before it is compared: the kubelet
// looks at its containers once a second.
const settle = 1500 * time.Millisecond

func ready(s *corev1.PodStatus) bool {
	return slices.ContainsFunc(s.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func ended(s *corev1.PodStatus) bool {
	return s.Phase == corev1.PodSucceeded || s.Phase == corev1.PodFailed
}

func find(s *corev1.PodStatus, name string) *corev1.ContainerStatus {
	for _, list := range [][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// restarted waits until a container runs again after n restarts.
func restarted(name string, n int32) func(*corev1.PodStatus) bool {
	return func(s *corev1.PodStatus) bool {
		c := find(s, name)
		return c != nil && c.RestartCount >= n && c.State.Running != nil
	}
}

// restartedAndReady waits for the whole workload as well.
func restartedAndReady(name string, n int32) func(*corev1.PodStatus) bool {
	return func(s *corev1.PodStatus) bool { return restarted(name, n)(s) && ready(s) }
}

func running(name string) func(*corev1.PodStatus) bool { return restarted(name, 0) }

func terminated(name string) func(*corev1.PodStatus) bool {
	return func(s *corev1.PodStatus) bool {
		c := find(s, name)
		return c != nil && c.State.Terminated != nil
	}
}

// waiting waits until a container waits for a reason, after n restarts.
func waiting(name, reason string, n int32) func(*corev1.PodStatus) bool {
	return func(s *corev1.PodStatus) bool {
		c := find(s, name)
		return c != nil && c.RestartCount >= n && c.State.Waiting != nil && c.State.Waiting.Reason == reason
	}
}

// backedOff waits until a container has exited after n restarts, however the
// status puts that.
func backedOff(name string, n int32) func(*corev1.PodStatus) bool {
	return func(s *corev1.PodStatus) bool {
		c := find(s, name)
		return c != nil && c.RestartCount == n &&
			(c.State.Terminated != nil || c.State.Waiting != nil && c.State.Waiting.Reason != "")
	}
}

func reason(want string) func(*corev1.PodStatus) bool {
	return func(s *corev1.PodStatus) bool { return s.Reason == want && ended(s) }
}

// touch makes a file in /j.
func touch(name string) func(context.Context, *pairing) error {
	return func(_ context.Context, p *pairing) error {
		return os.WriteFile(filepath.Join(p.dir, name), nil, 0o600)
	}
}

// get sends a request to the test program's port 8080.
func get(path string) func(context.Context, *pairing) error {
	return func(ctx context.Context, p *pairing) error {
		ips := p.latest().PodIPs
		if len(ips) == 0 {
			return fmt.Errorf("no address to send %s to", path)
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+ips[0].IP+":8080"+path, nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return nil //nolint:nilerr // a program that was told to exit may do so before it answers
		}
		_, _ = io.Copy(io.Discard, response.Body) // the answer says nothing
		return response.Body.Close()
	}
}

// killSandbox ends the process that holds the pod's namespaces, as a crash would.
func killSandbox(ctx context.Context, p *pairing) error {
	list, err := p.side.runtime().ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{
		LabelSelector: map[string]string{"io.kubernetes.pod.uid": p.uid()},
	}})
	if err != nil {
		return err
	}
	for _, sandbox := range list.GetItems() {
		answer, err := p.side.runtime().PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: sandbox.GetId(), Verbose: true})
		if err != nil {
			return err
		}
		var info struct {
			PID int `json:"pid"`
		}
		if err := json.Unmarshal([]byte(answer.GetInfo()["info"]), &info); err != nil || info.PID == 0 {
			return fmt.Errorf("process of sandbox %s: %w", sandbox.GetId(), err)
		}
		if err := syscall.Kill(info.PID, syscall.SIGKILL); err != nil {
			return err
		}
	}
	return nil
}

// change edits what may be changed in a running Pod.
func change(edit func(*corev1.PodSpec)) func(context.Context, *pairing) error {
	return func(ctx context.Context, p *pairing) error { return p.side.change(ctx, p.name, edit) }
}

// resize gives a container other CPU and memory.
func resize(name string, to corev1.ResourceRequirements) func(context.Context, *pairing) error {
	return func(ctx context.Context, p *pairing) error {
		return p.side.resize(ctx, p.name, func(s *corev1.PodSpec) {
			for _, list := range [][]corev1.Container{s.InitContainers, s.Containers} {
				for i := range list {
					if list[i].Name == name {
						list[i].Resources = to
					}
				}
			}
		})
	}
}

// resized waits until a running container has these resources and the workload
// is ready.
func resized(name string, to corev1.ResourceRequirements) func(*corev1.PodStatus) bool {
	return func(s *corev1.PodStatus) bool {
		c := find(s, name)
		return c != nil && c.State.Running != nil && c.Resources != nil && ready(s) &&
			equality.Semantic.DeepEqual(c.Resources.Requests, to.Requests) && equality.Semantic.DeepEqual(c.Resources.Limits, to.Limits)
	}
}
