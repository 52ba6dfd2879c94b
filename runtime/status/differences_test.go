// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// A template may get and lose resources, and the class goes with it.
func TestQOSClassFollowsTheTemplate(t *testing.T) {
	full := amounts("1", "1Gi")
	c := corev1.Container{Name: "c", Resources: corev1.ResourceRequirements{Requests: full, Limits: full}}
	before := Compute(Input{Pod: pod(corev1.Container{Name: "c"}), Observed: observed(running("c")), Now: t0})
	after := Compute(Input{Pod: pod(c), Observed: observed(running("c")), Previous: &before, Now: t0})
	if before.QOSClass != corev1.PodQOSBestEffort || after.QOSClass != corev1.PodQOSGuaranteed {
		t.Errorf("QoS class %s, then %s", before.QOSClass, after.QOSClass)
	}
}
