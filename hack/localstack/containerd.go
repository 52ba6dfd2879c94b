// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package localstack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"text/template"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// containerdConfig is for containerd 2.x, which reads it in any minor version.
var containerdConfig = template.Must(template.New("containerd.toml").Parse(`version = 3
root = "{{.Root}}"
state = "{{.State}}"
disabled_plugins = [
  "io.containerd.nri.v1.nri",
  "io.containerd.internal.v1.opt",
  "io.containerd.internal.v1.tracing",
  "io.containerd.tracing.processor.v1.otlp",
  "io.containerd.image-verifier.v1.bindir",
]

[grpc]
  address = "{{.Socket}}"

[plugins.'io.containerd.shim.v1.manager']
  socket_dir = "{{.ShimSockets}}"

[plugins.'io.containerd.cri.v1.images']
  snapshotter = "{{.Snapshotter}}"
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = "{{.Pause}}"
  [plugins.'io.containerd.cri.v1.images'.registry]
    config_path = "{{.Registries}}"

[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = {{.RestrictOOM}}
  netns_mounts_under_state_dir = true
  drain_exec_sync_io_timeout = "1s"
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ["{{.CNIBin}}"]
    conf_dir = "{{.CNIConf}}"
  [plugins.'io.containerd.cri.v1.runtime'.containerd]
    default_runtime_name = "runc"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      runtime_path = "{{.RuncShim}}"
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
        BinaryName = "{{.Runc}}"
        Root = "{{.RuncRoot}}"
        SystemdCgroup = {{.SystemdCgroup}}
{{- if .UserNamespaces}}
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.'{{.UserNamespaces}}']
      runtime_type = "io.containerd.runc.v2"
      runtime_path = "{{.RuncShim}}"
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.'{{.UserNamespaces}}'.options]
        BinaryName = "{{.PinnedRunc}}"
        Root = "{{.RuncRoot}}"
        SystemdCgroup = {{.SystemdCgroup}}
{{- end}}

[plugins.'io.containerd.grpc.v1.cri']
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
`))

// containerd1Config is for containerd 1.6 and 1.7.
var containerd1Config = template.Must(template.New("containerd.toml").Parse(`version = 2
root = "{{.Root}}"
state = "{{.State}}"
disabled_plugins = ["io.containerd.nri.v1.nri", "io.containerd.internal.v1.opt", "io.containerd.tracing.processor.v1.otlp"]

[grpc]
  address = "{{.Socket}}"

[plugins.'io.containerd.grpc.v1.cri']
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  sandbox_image = "{{.Pause}}"
  restrict_oom_score_adj = {{.RestrictOOM}}
  netns_mounts_under_state_dir = true
  drain_exec_sync_io_timeout = "1s"
  [plugins.'io.containerd.grpc.v1.cri'.registry]
    config_path = "{{.Registries}}"
  [plugins.'io.containerd.grpc.v1.cri'.cni]
    bin_dir = "{{.CNIBin}}"
    conf_dir = "{{.CNIConf}}"
  [plugins.'io.containerd.grpc.v1.cri'.containerd]
    snapshotter = "{{.Snapshotter}}"
    default_runtime_name = "runc"
    [plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.runc.options]
        BinaryName = "{{.Runc}}"
        Root = "{{.RuncRoot}}"
        SystemdCgroup = {{.SystemdCgroup}}
`))

// startRuntime starts containerd with a pod network and imports the images.
func (s *Stack) startRuntime(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return errors.New("containerd needs root")
	}
	if s.opts.HostRuntime != "" {
		if err := s.prepareHost(); err != nil {
			return err
		}
	}
	if err := s.prepareImages(ctx); err != nil {
		return err
	}
	s.progress("Starting containerd, importing the images")
	return s.onNodes(func(n *Node) error {
		n.Containerd = containerdComponent(s, ofNode(containerdName, n.number), n.layout)
		return s.runContainerd(ctx, n.Containerd, n.layout)
	})
}

// containerdName is the component of the first shim's containerd.
const containerdName = "containerd"

// runContainerd configures and starts a containerd and imports the images.
func (s *Stack) runContainerd(ctx context.Context, c *Component, l layout) error {
	if err := os.MkdirAll(l.shimSockets(), 0o711); err != nil {
		return err
	}
	if err := s.writeContainerdConfig(ctx, l); err != nil {
		return fmt.Errorf("containerd's configuration: %w", err)
	}
	if err := s.writeNetwork(l); err != nil {
		return fmt.Errorf("CNI configuration: %w", err)
	}
	if err := c.Start(ctx); err != nil {
		return err
	}
	return s.importArchive(ctx, l, s.imageArchive(), []string{ImageV1, ImageV2, ImageNonRoot, ImageNamedUser, ImagePause})
}

func containerdComponent(s *Stack, name string, l layout) *Component {
	c := s.component(name, s.tools.containerd, func(ctx context.Context) error {
		return runtimeReady(ctx, l)
	}, "--config", l.containerdConfig())
	// Its own shim first, and the folders that a user's PATH may lack.
	path := append([]string{filepath.Dir(s.tools.runcShim)}, searchPath()...)
	c.env = []string{"PATH=" + strings.Join(path, ":")}
	return c
}

func (s *Stack) writeContainerdConfig(ctx context.Context, l layout) error {
	var version bytes.Buffer
	if err := run(ctx, command{path: s.tools.containerd, args: []string{"--version"}, out: &version}); err != nil {
		return err
	}
	config, file := containerdConfig, l.containerdConfig()
	switch old := strings.Contains(version.String(), " 1.") || strings.Contains(version.String(), " v1."); {
	case old && l.onHost:
		return errors.New("the configuration of docs/operations.md is for containerd 2")
	case old:
		config = containerd1Config
	case l.onHost:
		var err error
		if config, file, err = importMachineConfig(l); err != nil {
			return err
		}
	}
	snapshotter, err := snapshotterFor(l.dir)
	if err != nil {
		return err
	}
	handler := ""
	if s.opts.UserNamespaces {
		handler = HandlerUserNamespaces
	}
	var text bytes.Buffer
	err = config.Execute(&text, map[string]any{
		"Root": l.containerdRoot(), "State": l.containerdState(),
		"Socket": l.containerdSocket(), "ShimSockets": l.shimSockets(),
		"Snapshotter": snapshotter, "Pause": ImagePause, "RestrictOOM": !canSetOOMScore(),
		"CNIBin": s.tools.cniDir, "CNIConf": l.cniConfig(),
		"RuncShim": s.tools.runcShim, "Runc": s.tools.runc, "RuncRoot": l.runcRoot(),
		"SystemdCgroup": l.systemdCgroups(), "Registries": s.layout.registries(),
		"UserNamespaces": handler, "PinnedRunc": s.tools.pinnedRunc,
	})
	if err != nil {
		return err
	}
	return os.WriteFile(file, text.Bytes(), 0o644)
}

// snapshotterFor avoids an overlay on an overlay, which the kernel refuses.
func snapshotterFor(dir string) (string, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return "", fmt.Errorf("file system of %s: %w", dir, err)
	}
	if fs.Type == unix.OVERLAYFS_SUPER_MAGIC {
		return "native", nil
	}
	return "overlayfs", nil
}

// canSetOOMScore reports whether this process may lower an OOM score. Without
// CAP_SYS_RESOURCE runc fails on the negative scores that the CRI asks for.
func canSetOOMScore() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false
	}
	return data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
}

// runtimeReady asks for the runtime and its network, as a kubelet would.
func runtimeReady(ctx context.Context, l layout) (err error) {
	client, err := dialCRI(l)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	status, err := client.Status(ctx, &runtimeapi.StatusRequest{})
	if err != nil {
		return err
	}
	for _, condition := range status.GetStatus().GetConditions() {
		required := condition.GetType() == runtimeapi.RuntimeReady || condition.GetType() == runtimeapi.NetworkReady
		if required && !condition.GetStatus() {
			return fmt.Errorf("%s: %s %s", condition.GetType(), condition.GetReason(), condition.GetMessage())
		}
	}
	return nil
}

// prepareImages writes the archive with the images of the test program.
func (s *Stack) prepareImages(ctx context.Context) error {
	if s.opts.TestProgram == "" {
		s.opts.TestProgram = s.layout.binary("testprogram")
		if err := s.buildProgram(ctx, "./hack/testprogram", s.opts.TestProgram); err != nil {
			return err
		}
	}
	if err := WriteImages(s.opts.TestProgram, s.imageArchive(), runtime.GOARCH); err != nil {
		return fmt.Errorf("write images: %w", err)
	}
	return nil
}

func (s *Stack) imageArchive() string { return s.layout.path("images.tar") }

// importArchive makes the images of an archive known to the CRI.
func (s *Stack) importArchive(ctx context.Context, l layout, archive string, images []string) error {
	args, err := importArgs(l, archive)
	if err != nil {
		return err
	}
	if err := run(ctx, command{path: s.tools.ctr, args: args}); err != nil {
		return err
	}
	return awaitImages(ctx, l, images)
}

func importArgs(l layout, archive string) ([]string, error) {
	snapshotter, err := snapshotterFor(l.dir)
	if err != nil {
		return nil, err
	}
	args := []string{"--address", l.containerdSocket(), "--namespace", "k8s.io", "images", "import"}
	if snapshotter != "overlayfs" {
		// Otherwise containerd's transfer service unpacks for its default snapshotter.
		args = append(args, "--local", "--snapshotter", snapshotter)
	}
	return append(args, archive), nil
}
