// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import "strings"

// maxDescribed is how many nodes a message describes.
const maxDescribed = 3

// notReadyMessage is why nodes are not ready: "n1: 0/1 ready, readiness probe failing".
func notReadyMessage(list []*nodeView) string {
	var parts []string
	for _, n := range list[:min(len(list), maxDescribed)] {
		parts = append(parts, n.name+": "+n.share.Complaint)
	}
	return strings.Join(parts, "; ") + andMore(len(list)-maxDescribed)
}

// failedMessage is how the containers ended on nodes where they will not be
// restarted: "Failed on n1, exit code 3; will not restart".
func failedMessage(list []*nodeView) string {
	var parts []string
	for _, n := range list[:min(len(list), maxDescribed)] {
		parts = append(parts, n.name+", "+n.share.Failure)
	}
	return "Failed on " + strings.Join(parts, "; on ") + andMore(len(list)-maxDescribed) + "; will not restart"
}
