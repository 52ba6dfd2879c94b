// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// pluginFolder is the folder of PATH with the plugin.
func (e *Env) pluginFolder() string { return filepath.Join(e.Stack.StateDir(), "plugins") }

// BuildPlugin builds the kubectl plugin as make build does, under both of its names. It is a
// setup of Run.
func BuildPlugin(ctx context.Context, e *Env) error {
	folder := e.pluginFolder()
	cmd := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(folder, "kubectl-managedworkload"), "./cli/cmd/kubectl-managedworkload")
	cmd.Dir = filepath.Join("..", "..", "..")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the plugin: %w\n%s", err, out)
	}
	return os.Symlink("kubectl-managedworkload", filepath.Join(folder, "kubectl-mw"))
}

// Kubectl runs kubectl, with the plugin of BuildPlugin, in the workload's namespace. It
// returns what kubectl printed, and its exit code.
func (w *Workload) Kubectl(stdin string, args ...string) (out, errOut string, code int) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), Timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, w.env.Stack.KubectlPath(), append(args, "-n", w.Namespace)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+w.env.Stack.Kubeconfig(), "PATH="+w.env.pluginFolder()+":"+os.Getenv("PATH"), "KUBECACHEDIR="+w.t.TempDir())
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		w.t.Fatal(err)
	}
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}
