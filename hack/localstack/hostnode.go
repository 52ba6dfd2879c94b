// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package localstack

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"text/template"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// hostFolders are those that docs/operations.md and config/shim name.
var hostFolders = []string{"/etc/managedworkload", "/run/managedworkload", "/var/lib/managedworkload", "/var/log/managedworkload"}

const (
	hostRuntimeConfig = "/etc/managedworkload/containerd.toml"
	propagationFile   = "propagation.json"
)

// machineConfig is imported after the configuration of docs/operations.md, and
// says what this machine needs: an image for sandboxes that comes from no registry,
// Debian's folder of CNI plugins, and nothing outside the folders that are removed.
var machineConfig = template.Must(template.New("machine.toml").Parse(`version = 3
disabled_plugins = [
  "io.containerd.internal.v1.opt",
  "io.containerd.internal.v1.tracing",
  "io.containerd.tracing.processor.v1.otlp",
]

[plugins.'io.containerd.shim.v1.manager']
  socket_dir = "{{.ShimSockets}}"

[plugins.'io.containerd.cri.v1.images']
  snapshotter = "{{.Snapshotter}}"
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = "{{.Pause}}"

[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = {{.RestrictOOM}}
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ["{{.CNIBin}}"]
`))

// hostNode is the layout of a runtime and a shim that lie where docs/operations.md
// has them.
func (l layout) hostNode() layout {
	node := l.node("h")
	node.onHost = true
	return node
}

// importMachineConfig has containerd read the host's configuration and then that
// of the machine, which it returns the template and the file of.
func importMachineConfig(l layout) (*template.Template, string, error) {
	file := l.path("machine.toml")
	text := fmt.Sprintf("version = 3\nimports = [%q, %q]\n", hostRuntimeConfig, file)
	return machineConfig, file, os.WriteFile(l.containerdConfig(), []byte(text), 0o644)
}

// prepareHost makes the folders and shares mounts as systemd does at boot, because
// without that containerd refuses the shim's volumes. Both is written down before.
func (s *Stack) prepareHost() error {
	for _, dir := range hostFolders {
		if _, err := os.Lstat(dir); err == nil {
			return fmt.Errorf("%s is there already: this machine has a ManagedWorkload of its own", dir)
		}
	}
	node := s.layout.hostNode()
	if err := node.create(); err != nil {
		return err
	}
	unshared, err := unsharedMounts()
	if err != nil {
		return err
	}
	data, err := json.Marshal(unshared)
	if err != nil {
		return err
	}
	if err := os.WriteFile(node.path(propagationFile), data, 0o600); err != nil {
		return err
	}
	for _, mount := range unshared {
		if err := unix.Mount("", mount.Point, "", unix.MS_SHARED, ""); err != nil {
			return fmt.Errorf("share mount %s: %w", mount.Point, err)
		}
	}
	for _, dir := range append([]string{node.cniConfig()}, hostFolders...) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	return os.WriteFile(hostRuntimeConfig, []byte(s.opts.HostRuntime), 0o644)
}

// propagation is what a mount was before it was shared.
type propagation struct {
	Point string `json:"point"`
	Slave bool   `json:"slave"`
}

// unsharedMounts are those that hold the shim's volumes and are not shared.
func unsharedMounts() ([]propagation, error) {
	infos, err := mountinfo.GetMounts(func(info *mountinfo.Info) (skip, stop bool) {
		for _, dir := range hostFolders {
			if info.Mountpoint == "/" || strings.HasPrefix(dir, info.Mountpoint+"/") {
				return strings.Contains(info.Optional, "shared:"), false
			}
		}
		return true, false
	})
	if err != nil {
		return nil, fmt.Errorf("mounts: %w", err)
	}
	mounts := make([]propagation, 0, len(infos))
	for _, info := range infos {
		mounts = append(mounts, propagation{Point: info.Mountpoint, Slave: strings.Contains(info.Optional, "master:")})
	}
	return mounts, nil
}

// removeHost undoes prepareHost, once everything below the folders is gone. It
// does nothing to a host that was not prepared.
func removeHost(node layout) error {
	data, err := os.ReadFile(node.path(propagationFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var mounts []propagation
	if err := errors.Join(err, json.Unmarshal(data, &mounts)); err != nil {
		return fmt.Errorf("what was before the runtime: %w", err)
	}
	left, err := mountsBelow(node)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("%s is still mounted", strings.Join(left, ", "))
	}
	var errs []error
	for _, mount := range mounts {
		before := uintptr(unix.MS_PRIVATE)
		if mount.Slave {
			before = unix.MS_SLAVE
		}
		errs = append(errs, unix.Mount("", mount.Point, "", before, ""))
	}
	for _, dir := range hostFolders {
		errs = append(errs, os.RemoveAll(dir))
	}
	return errors.Join(errs...)
}
