// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// What fails about an image is reported in the runtime's words alone where the
// kubelet does so.
func TestWordsOfImageErrors(t *testing.T) {
	f, c := newFake(t)
	fail := func(method string, err error) {
		f.set(func() { f.fail = map[string]error{method: err} })
	}
	fail("PullImage", status.Error(codes.Unknown, "RegistryUnavailable: gone"))
	if _, err := c.PullImage(t.Context(), "a:v1", newPod(), nil); err == nil || err.Error() != "RegistryUnavailable: gone" {
		t.Errorf("pull of an unknown error: %v", err)
	}
	fail("PullImage", status.Error(codes.Unavailable, "no runtime"))
	if _, err := c.PullImage(t.Context(), "a:v1", newPod(), nil); status.Code(err) != codes.Unavailable {
		t.Errorf("pull: %v, want the runtime's code", err)
	}
	fail("ImageStatus", status.Error(codes.Unknown, "no idea"))
	pod := newPod()
	_, err := c.CreateContainer(t.Context(), pod, &pod.Spec.Containers[0], plan.CreateOptions{SandboxID: "s", ImageRef: "sha256:9"})
	if !isConfigError(err) || err.Error() != "no idea" {
		t.Errorf("create of an image that cannot be inspected: %v", err)
	}
}
