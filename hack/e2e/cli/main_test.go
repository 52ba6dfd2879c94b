// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cli tests the plugin as a person meets it: kubectl finds it in PATH under both of
// its names, and it talks to a real API server about real containers.
package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/managedworkload/managedworkload/hack/e2e/harness"
	"github.com/managedworkload/managedworkload/hack/localstack"
)

var env *harness.Env

func TestMain(m *testing.M) {
	os.Exit(harness.Run(m, &env, localstack.Options{}, build))
}

// plugins is the folder of PATH with the plugin.
func plugins() string { return filepath.Join(env.Stack.StateDir(), "plugins") }

// build builds the plugin as make build does.
func build(ctx context.Context, e *harness.Env) error {
	folder := filepath.Join(e.Stack.StateDir(), "plugins")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(folder, "kubectl-managedworkload"), "./cli/cmd/kubectl-managedworkload")
	cmd.Dir = filepath.Join("..", "..", "..")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the plugin: %w\n%s", err, out)
	}
	return os.Symlink("kubectl-managedworkload", filepath.Join(folder, "kubectl-mw"))
}

// result is what kubectl printed, and its exit code.
type result struct {
	out, err string
	code     int
}

// kubectl runs kubectl in the workload's namespace.
func kubectl(t *testing.T, w *harness.Workload, stdin string, args ...string) result {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), env.Stack.KubectlPath(), append(args, "-n", w.Namespace)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+env.Stack.Kubeconfig(), "PATH="+plugins()+":"+os.Getenv("PATH"), "KUBECACHEDIR="+t.TempDir())
	var out, errOut bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errOut
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{out.String(), errOut.String(), cmd.ProcessState.ExitCode()}
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
