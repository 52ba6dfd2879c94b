// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"regexp"
	"strings"
	"testing"
)

var triggerConstant = regexp.MustCompile(`(?m)^\tTrigger[A-Z]\w+ +KillTrigger = "(\w+)"$`)

// Each trigger of a kill has its row, and its e2e test, on the page about kills; no row is
// about another.
func TestTriggersAreExplained(t *testing.T) {
	triggers := map[string]bool{}
	for _, c := range triggerConstant.FindAllStringSubmatch(sources(t, "../api/v1alpha1/kill_types.go"), -1) {
		triggers[c[1]] = true
	}
	if len(triggers) < 16 {
		t.Fatalf("found %d triggers", len(triggers))
	}
	explained := map[string]bool{}
	for _, r := range tables(t, kills, "trigger") {
		name := strings.Trim(r[0], "`")
		explained[name] = true
		if !triggers[name] {
			t.Errorf("there is no trigger %s", name)
		}
		checkTests(t, r, "hack/e2e/")
	}
	for name := range triggers {
		if !explained[name] {
			t.Errorf("%s has no row for the trigger %s", kills, name)
		}
	}
}
