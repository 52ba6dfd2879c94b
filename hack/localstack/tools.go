// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package localstack

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const modulePath = "github.com/managedworkload/managedworkload"

// tools are the third-party programs that a stack uses.
type tools struct {
	root string // of the repository

	etcd, apiserver, kubectl   string
	containerd, runcShim, ctr  string
	runc, ip, iptables, cniDir string
	pinnedRunc                 string // if it is wanted

	kubelet, controllerManager, scheduler string
}

// findTools looks in the folder of the pinned tools; KUBEBUILDER_ASSETS, when
// set, comes first for etcd, kube-apiserver and kubectl.
func findTools(opts Options) (tools, error) {
	root, err := repositoryRoot()
	if err != nil {
		return tools{}, err
	}
	t := tools{root: root}
	pinned := ToolsDir(root)
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	var missing []string
	find := func(name string, dirs ...string) string {
		for _, dir := range dirs {
			if path := filepath.Join(dir, name); dir != "" && executable(path) {
				return path
			}
		}
		missing = append(missing, name)
		return ""
	}
	if !opts.WithoutControlPlane {
		t.etcd = find("etcd", assets, pinned)
		t.apiserver = find("kube-apiserver", assets, pinned)
		t.kubectl = find("kubectl", assets, pinned)
	}
	if !opts.WithoutRuntime {
		t.containerd = cmp.Or(opts.Containerd, os.Getenv("MW_CONTAINERD"))
		if t.containerd == "" {
			t.containerd = find("containerd", pinned)
		}
		t.runcShim = find("containerd-shim-runc-v2", filepath.Dir(t.containerd), pinned)
		t.ctr = find("ctr", filepath.Dir(t.containerd), pinned)
		t.runc = find("runc", searchPath()...)
		t.ip = find("ip", searchPath()...)
		t.iptables = find("iptables", searchPath()...)
		t.cniDir = filepath.Dir(find("bridge", "/usr/lib/cni", "/opt/cni/bin"))
	}
	for _, extra := range []struct {
		wanted bool
		name   string
		path   *string
	}{
		{opts.WithKubelet, kubeletName, &t.kubelet},
		{opts.WithControllerManager, controllerManagerName, &t.controllerManager},
		{opts.WithScheduler, schedulerName, &t.scheduler},
		{opts.UserNamespaces && !opts.WithoutRuntime, "runc-userns", &t.pinnedRunc},
	} {
		if extra.wanted {
			*extra.path = find(extra.name, pinned)
		}
	}
	if len(missing) > 0 {
		return tools{}, fmt.Errorf("missing: %s; \"make tools\" brings them", strings.Join(missing, ", "))
	}
	return t, nil
}

// ToolsDir is where hack/tools/build.sh puts the pinned tools.
func ToolsDir(root string) string {
	if dir := os.Getenv("MW_TOOLS_DIR"); dir != "" {
		return dir
	}
	return filepath.Join(root, "bin")
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir() && info.Mode()&0o111 != 0
}

func searchPath() []string {
	return append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/sbin", "/usr/local/sbin")
}

// repositoryRoot goes up from the current folder to this module's go.mod.
func repositoryRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && bytes.HasPrefix(data, []byte("module "+modulePath+"\n")) {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("not inside the repository of " + modulePath)
		}
		dir = parent
	}
}

// buildProgram builds a package of this module statically, unless MW_PROGRAMS of
// the environment is a folder that has it.
func (s *Stack) buildProgram(ctx context.Context, pkg, target string) error {
	if dir := os.Getenv("MW_PROGRAMS"); dir != "" {
		return run(ctx, command{path: "cp", args: []string{filepath.Join(dir, filepath.Base(target)), target}})
	}
	s.progress("Building %s", pkg)
	return run(ctx, command{
		dir: s.tools.root, env: []string{"CGO_ENABLED=0"},
		path: "go", args: []string{"build", "-trimpath", "-buildvcs=false", "-o", target, pkg},
	})
}

// Kubectl runs kubectl as an administrator and returns its standard output.
func (s *Stack) Kubectl(ctx context.Context, args ...string) (string, error) {
	var out bytes.Buffer
	err := run(ctx, command{
		dir: s.tools.root, path: s.tools.kubectl, args: args, out: &out,
		env: []string{"KUBECONFIG=" + s.Kubeconfig(), "KUBECACHEDIR=" + s.layout.kubectlCache()},
	})
	return out.String(), err
}

// KubectlPath is the kubectl that Kubectl runs.
func (s *Stack) KubectlPath() string { return s.tools.kubectl }

// command is a program that is waited for.
type command struct {
	path string // or a name, looked up in PATH and the folders of root's programs
	args []string
	dir  string
	env  []string
	out  *bytes.Buffer
}

func lookUpProgram(name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	for _, dir := range searchPath() {
		if path := filepath.Join(dir, name); executable(path) {
			return path
		}
	}
	return name
}

// run returns an error that holds what the program wrote to standard error.
func run(ctx context.Context, c command) error {
	cmd := exec.CommandContext(ctx, lookUpProgram(c.path), c.args...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), c.env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if c.out != nil {
		cmd.Stdout = c.out
	} else {
		cmd.Stdout = &stderr
	}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", filepath.Base(c.path), strings.Join(c.args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return nil
}
