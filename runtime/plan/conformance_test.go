// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import "testing"

// exclusion is a kind of vector that cannot be compared.
type exclusion[T any] struct {
	name, reason string
	applies      func(T) bool
}

// excluded counts the vectors that a rule excludes, by its name.
type excluded map[string]int

func excludes[T any](t *testing.T, rules []exclusion[T], vector T, counts excluded) bool {
	t.Helper()
	for _, rule := range rules {
		if rule.applies(vector) {
			counts[rule.name]++
			return true
		}
	}
	return false
}

func logExclusions[T any](t *testing.T, rules []exclusion[T], counts excluded) {
	t.Helper()
	for _, rule := range rules {
		t.Logf("Excluded: %d by %s (%s)", counts[rule.name], rule.name, rule.reason)
	}
}
