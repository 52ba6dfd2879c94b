// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// deletionGrace reads the grace period of a ManagedWorkload's deletion from its
// annotation, in seconds; nil means the template's own. problem says what is
// wrong with the annotation.
func deletionGrace(annotations map[string]string) (seconds *int64, problem string) {
	value, ok := annotations[v1alpha1.AnnotationDeletionGracePeriodSeconds]
	if !ok {
		return nil, ""
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 {
		return nil, fmt.Sprintf("annotation %s: %q is not a number of seconds from 0 on: the template's own grace period is used",
			v1alpha1.AnnotationDeletionGracePeriodSeconds, limit(value, 64))
	}
	return &n, ""
}

// shrunkGrace is the deletionGracePeriodSeconds that a NodeWorkload should have
// when seconds are wanted: never more than it has now, nor than its template's
// grace period, because it may only shrink, and never what the API does not take. A
// NodeWorkload that the manager did not create may lack the default.
func shrunkGrace(spec *v1alpha1.NodeWorkloadSpec, wanted *int64) *int64 {
	current := spec.DeletionGracePeriodSeconds
	if wanted == nil {
		return current
	}
	most := ptr.Deref(current, ptr.Deref(spec.Template.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds))
	return new(max(min(most, *wanted), 0))
}

// limit cuts s to at most n bytes, at a character's boundary, and marks the cut.
func limit(s string, n int) string {
	const mark = "..."
	if len(s) <= n {
		return s
	}
	end := n - len(mark)
	for end > 0 && s[end]&0xC0 == 0x80 {
		end--
	}
	return s[:end] + mark
}
