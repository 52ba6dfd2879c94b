// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"slices"
)

// graceNote says which grace period a deletion uses, or would use, as far as that is
// not what the annotation says.
func graceNote(f *facts) string {
	switch {
	case !f.deleting && f.graceProblem != "":
		return with(f.graceProblem+"; a deletion uses the template's grace period", heldNote(f))
	case !f.deleting:
		return heldNote(f)
	case len(f.leaving) == 0:
		return ""
	}
	used := usedGrace(f.leaving)
	switch {
	case f.graceProblem != "":
		return fmt.Sprintf("%s; the grace period is %s", f.graceProblem, used)
	case f.grace != nil && used != seconds(*f.grace):
		return fmt.Sprintf("the grace period is %s and can only be shortened (annotation: %s)", used, seconds(*f.grace))
	}
	return "the grace period is " + used
}

// heldNote names the nodes whose NodeWorkload got a grace period for its deletion by
// hand: the API does not let it be taken away.
func heldNote(f *facts) string {
	var held []string
	for i := range f.desired {
		if share := f.desired[i].share; share != nil && !share.Deleting() && share.DeletionGrace != nil {
			held = append(held, f.desired[i].name)
		}
	}
	if len(held) == 0 {
		return ""
	}
	return "deletionGracePeriodSeconds was set by hand on " + names(held) + " and can only be shortened: it stays until that NodeWorkload is deleted"
}

// usedGrace is the grace period with which NodeWorkloads end: "5s", or "5s to 30s".
func usedGrace(list []nodeView) string {
	var all []int64
	for i := range list {
		if share := list[i].share; share != nil {
			all = append(all, share.Grace())
		}
	}
	if len(all) == 0 {
		return "unknown"
	}
	shortest, longest := seconds(slices.Min(all)), seconds(slices.Max(all))
	if shortest == longest {
		return longest
	}
	return shortest + " to " + longest
}

// seconds is a grace period in words; 0 counts as 1, as in the kubelet.
func seconds(n int64) string { return fmt.Sprintf("%ds", max(n, 1)) }
