// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"github.com/managedworkload/managedworkload/hack/scenario"
)

// smallest returns a scenario of which nothing can be left out without the
// difference going away.
func (p *pair) smallest(s *scenario.Scenario, v verdict) (*scenario.Scenario, verdict) {
	for found := true; found; {
		found = false
		for smaller := range scenario.Smaller(s) {
			if next := p.examine(smaller); next.difference != nil {
				s, v, found = smaller, next, true
				break
			}
		}
	}
	return s, v
}
