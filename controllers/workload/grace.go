// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"strconv"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/writes"
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
			v1alpha1.AnnotationDeletionGracePeriodSeconds, writes.Limit(value, 64))
	}
	return &n, ""
}
