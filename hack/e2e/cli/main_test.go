// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cli tests the plugin as a person meets it: kubectl finds it in PATH under both of
// its names, and it talks to a real API server about real containers.
package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/managedworkload/managedworkload/hack/e2e/harness"
	"github.com/managedworkload/managedworkload/hack/localstack"
)

var env *harness.Env

func TestMain(m *testing.M) {
	os.Exit(harness.Run(m, &env, localstack.Options{}, harness.BuildPlugin))
}

// result is what kubectl printed, and its exit code.
type result struct {
	out, err string
	code     int
}

// kubectl runs kubectl in the workload's namespace.
func kubectl(t *testing.T, w *harness.Workload, stdin string, args ...string) result {
	t.Helper()
	out, errOut, code := w.Kubectl(stdin, args...)
	return result{out, errOut, code}
}

// want checks the exit code and parts of the output.
func (r result) want(t *testing.T, code int, parts ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d: %s", r.code, code, r.err)
	}
	for _, part := range parts {
		if !strings.Contains(r.out, part) {
			t.Errorf("the output lacks %q:\n%s%s", part, r.out, r.err)
		}
	}
}
