// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package localstack

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// longestStateDir is the length up to which sockets fit into the state folder:
// a socket's path has 108 bytes, and containerd's shims name theirs with 64 below a
// folder for the node.
const longestStateDir = 36

// layout knows where everything of a stack lies.
type layout struct {
	dir string
	// id tells stacks apart where they meet: bridges, cgroups, chains.
	id string
	// sockets is the state folder, or a folder in /run when that is too deep.
	sockets string
	// onHost tells that runtime and shim lie where docs/operations.md has them.
	onHost bool
}

func newLayout(stateDir string) (layout, error) {
	if stateDir == "" {
		return layout{}, errors.New("a stack needs a state folder")
	}
	dir, err := filepath.Abs(stateDir)
	if err != nil {
		return layout{}, fmt.Errorf("state folder: %w", err)
	}
	// Mount tables hold resolved paths. The folder itself may not exist yet.
	if parent, err := filepath.EvalSymlinks(filepath.Dir(dir)); err == nil {
		dir = filepath.Join(parent, filepath.Base(dir))
	}
	sum := sha256.Sum256([]byte(dir))
	l := layout{dir: dir, id: hex.EncodeToString(sum[:4]), sockets: dir}
	if len(dir) > longestStateDir {
		l.sockets = filepath.Join("/run", "mw-"+l.id)
	}
	return l, nil
}

// node is the layout of another node: a folder in the stack's, with an identity of
// its own where nodes meet (bridge, subnet, cgroups).
func (l layout) node(name string) layout {
	dir := l.path(name)
	sum := sha256.Sum256([]byte(dir))
	return layout{dir: dir, id: hex.EncodeToString(sum[:4]), sockets: filepath.Join(l.sockets, name)}
}

// or is a path on the host, or below the folder.
func (l layout) or(host string, elem ...string) string {
	if l.onHost {
		return host
	}
	return l.path(elem...)
}

func (l layout) path(elem ...string) string {
	return filepath.Join(append([]string{l.dir}, elem...)...)
}

func (l layout) stateFile() string           { return l.path("state.json") }
func (l layout) lockFile() string            { return l.path("lock") }
func (l layout) log(component string) string { return l.path("logs", component+".log") }
func (l layout) pki(file string) string      { return l.path("pki", file) }
func (l layout) etcdData() string            { return l.path("etcd") }
func (l layout) containerdConfig() string    { return l.path("containerd.toml") }
func (l layout) containerdRoot() string      { return l.path("containerd") }
func (l layout) containerdState() string     { return l.path("run") }
func (l layout) runcRoot() string            { return l.or("/run/managedworkload/runc", "runc") }
func (l layout) cniConfig() string           { return l.or("/etc/managedworkload/net.d", "cni", "net.d") }
func (l layout) cniData() string             { return l.path("cni", "ipam") }
func (l layout) shimState() string           { return l.or("/var/lib/managedworkload/shim", "shim") }
func (l layout) podLogs() string             { return l.or("/var/log/managedworkload/pods", "pods-logs") }
func (l layout) logLinks() string            { return l.path("log-links") }
func (l layout) registries() string          { return l.path("certs.d") }
func (l layout) scratch() string             { return l.path("scratch") }
func (l layout) kubectlCache() string        { return l.path("kubectl-cache") }
func (l layout) binary(name string) string   { return l.path("bin", name) }

func (l layout) kubeconfig(who identity) string {
	return l.path("kubeconfig", who.name+".kubeconfig")
}

func (l layout) token(shim string) string { return l.path("kubeconfig", shim+".token") }

func (l layout) containerdSocket() string {
	if l.onHost {
		return "/run/managedworkload/containerd/containerd.sock"
	}
	return filepath.Join(l.sockets, "containerd.sock")
}

func (l layout) shimSockets() string { return filepath.Join(l.sockets, "s") }

// bridge fits into the 15 bytes of an interface's name, and names the CNI
// network too.
func (l layout) bridge() string { return "mw-" + l.id }

// serviceBridge has the address of kube-apiserver's Service.
func (l layout) serviceBridge() string { return "mws-" + l.id }

func (l layout) create() error {
	for _, dir := range []string{
		"logs", "pki", "kubeconfig", "etcd", "containerd", "run", "runc",
		"cni/net.d", "cni/ipam", "shim", "pods-logs", "scratch", "bin",
	} {
		if err := os.MkdirAll(l.path(dir), 0o755); err != nil {
			return err
		}
	}
	return nil
}
