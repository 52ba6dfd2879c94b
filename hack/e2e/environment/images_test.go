// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
)

// missing is an image that cannot be pulled: nothing listens on that port.
const missing = "127.0.0.1:1/missing:v1"

// awaitWaiting waits until the first container waits for one of the reasons.
func awaitWaiting(t *testing.T, w *harness.Workload, reasons ...string) (reason, message string) {
	t.Helper()
	w.Await(fmt.Sprintf("it waits: %q", reasons), func(nw *v1alpha1.NodeWorkload) bool {
		c := nw.Status.ContainerStatuses
		if len(c) == 0 || c[0].State.Waiting == nil || !slices.Contains(reasons, c[0].State.Waiting.Reason) {
			return false
		}
		reason, message = c[0].State.Waiting.Reason, c[0].State.Waiting.Message
		if nw.Status.Summary != reason {
			t.Errorf("summary %q, reason %q", nw.Status.Summary, reason)
		}
		return true
	})
	return reason, message
}

func TestImagePullPolicies(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		image, policy string
		reason        string // "" runs
		message       string
		event         string
	}{
		"present, Never":        {testImage, "Never", "", "", "Pulled"},
		"present, IfNotPresent": {testImage, "IfNotPresent", "", "", "Pulled"},
		"missing, Never":        {missing, "Never", "ErrImageNeverPull", fmt.Sprintf("Container image %q is not present with pull policy of Never", missing), "ErrImageNeverPull"},
		"missing, IfNotPresent": {missing, "IfNotPresent", "ErrImagePull", "connection refused", "Failed"},
		"missing, Always":       {missing, "Always", "ErrImagePull", "connection refused", "Failed"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := env.Apply(t, fmt.Sprintf("containers: [{name: c, image: %q, imagePullPolicy: %s}]", tc.image, tc.policy))
			if tc.reason == "" {
				w.AwaitReady()
				w.AwaitEvent("Pulled", fmt.Sprintf("Container image %q already present on machine and can be accessed by the pod", tc.image))
				return
			}
			_, message := awaitWaiting(t, w, tc.reason)
			contains(t, "message", message, tc.message)
			w.AwaitEvent(tc.event, tc.image)
		})
	}
}

// A pull that fails backs off, and is done once the image is named aright.
func TestImagePullBackOff(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, fmt.Sprintf("containers: [{name: c, image: %q}]", missing))
	w.AwaitEvent("Pulling", fmt.Sprintf("Pulling image %q", missing))
	_, message := awaitWaiting(t, w, "ImagePullBackOff")
	if want := fmt.Sprintf("Back-off pulling image %q", missing); !strings.HasPrefix(message, want) {
		t.Errorf("message %q, want %q", message, want)
	}
	w.AwaitEvent("BackOff", fmt.Sprintf("Back-off pulling image %q", missing))
	w.Apply(fmt.Sprintf("containers: [{name: c, image: %q}]", testImage))
	if nw := w.AwaitReady(); nw.Status.KillCount != 0 || nw.Status.Restarts != 0 {
		t.Errorf("%d kills, %d restarts", nw.Status.KillCount, nw.Status.Restarts)
	}
}

func TestInvalidImageName(t *testing.T) {
	t.Parallel()
	const image = "Not/An:Image:Name"
	w := env.Apply(t, fmt.Sprintf("containers: [{name: c, image: %q}]", image))
	_, message := awaitWaiting(t, w, "InvalidImageName")
	if want := fmt.Sprintf("Failed to apply default image tag %q: couldn't parse image name %q", image, image); !strings.HasPrefix(message, want) {
		t.Errorf("message %q, want %q", message, want)
	}
	w.AwaitEvent("InspectFailed", image)
}
