// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Missing is an object or a token that a template refers to and that is not there: there
// is none, it may not be read, or it has not been received.
type Missing struct {
	// Container is the one that has a variable of it; empty for a volume, without which no
	// container of the pod starts.
	Container string
	// Reason says what is missing, in the words of the start that would fail.
	Reason Reason
}

// maxMissingWaits is how many are named: a template may have thousands.
const maxMissingWaits = 20

// Waiting is whether deliberate changes wait.
func (a *Actions) Waiting() bool { return len(a.Waits) > 0 || len(a.MissingWaits) > 0 }

// lacksObjects is the one place that decides that a deliberate change waits for objects:
// as long as the container that it is for could not be created. What runs would be lost
// for that.
func (p *planner) lacksObjects(c *corev1.Container) bool {
	if !p.Differences.ObjectsBeforeKill {
		return false
	}
	lacks := false
	for _, m := range p.Missing {
		if m.Container != "" && m.Container != c.Name {
			continue
		}
		lacks = true
		if len(p.actions.MissingWaits) < maxMissingWaits && !slices.Contains(p.actions.MissingWaits, m) {
			p.actions.MissingWaits = append(p.actions.MissingWaits, m)
		}
	}
	return lacks
}
