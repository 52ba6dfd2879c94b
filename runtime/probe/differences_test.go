// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Only what an agent finds is probed at a random moment, because it is all found at
// once. What it starts itself does not wait.
func TestJitterIsForWhatRanBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.started = time.Now()
		pod := podOf(corev1.Container{ReadinessProbe: every(1000), LivenessProbe: every(1000)})
		f.Update(pod, nil, nil)
		f.after(2 * time.Second)
		f.Update(pod, running("a"), nil)
		f.after(time.Second)
		f.wantCalls(readiness, "a@2")
		f.after(1000 * time.Second)
		f.wantCalls(liveness, "a@1000")
	})
}
