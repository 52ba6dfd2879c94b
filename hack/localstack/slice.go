// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package localstack

import (
	"context"
	"os"
	"path/filepath"
)

// systemdCgroups tells that systemd is to make the containers' cgroups, as
// MW_CGROUP_DRIVER of the environment says. A containerd on the host is the
// exception: it has the driver of docs/operations.md.
func (l layout) systemdCgroups() bool {
	return !l.onHost && os.Getenv("MW_CGROUP_DRIVER") == "systemd"
}

func (l layout) cgroupParent() string {
	switch {
	case l.onHost:
		return "/managedworkload"
	case l.systemdCgroups():
		return l.slice()
	default:
		return "/mw-" + l.id
	}
}

// slice has no dash, which would nest it in another.
func (l layout) slice() string { return "/mw_" + l.id + ".slice" }

// removeSlice has systemd remove the slice, with the slices of pods inside it.
func removeSlice(ctx context.Context, l layout) error {
	if _, err := os.Stat(filepath.Join(cgroupRoot, l.slice())); err != nil {
		return nil //nolint:nilerr // there is none
	}
	return run(ctx, command{path: "systemctl", args: []string{"stop", filepath.Base(l.slice())}})
}
