// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shutdown

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/managedworkload/managedworkload/runtime/hostfs"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/statefile"
)

// Files of logind's configuration. The last name of a directory counts, so that what the kubelet
// asks for must be part of our own. (kubelet nodeshutdown/systemd/inhibit_linux.go)
const (
	dropInDir   = "/etc/systemd/logind.conf.d"
	dropIn      = "99-managedworkload.conf"
	kubeletFile = "99-kubelet.conf"
	delayKey    = "InhibitDelayMaxSec="
)

// logind reads its configuration some time after it was asked to. (kubelet
// nodeshutdown_manager_linux.go:start)
const (
	firstReloadWait = 100 * time.Millisecond
	reloadLooks     = 5
)

// raiseDelay sees to it that logind waits for as long as a shutdown may take. It never lowers
// what is there.
func (m *Manager) raiseDelay(ctx context.Context, bus Logind) error {
	needed := plan.ShutdownTime(m.cfg.Periods)
	now, err := bus.InhibitDelay(ctx)
	if err != nil {
		return fmt.Errorf("ask for InhibitDelayMaxSec: %w", err)
	}
	if now >= needed {
		return nil
	}
	if err := writeDropIn(m.cfg.HostRoot, max(needed, kubeletDelay(m.cfg.HostRoot))); err != nil {
		return fmt.Errorf("raise InhibitDelayMaxSec: %w", err)
	}
	if err := bus.Reload(ctx); err != nil {
		return fmt.Errorf("have logind read its configuration: %w", err)
	}
	for look := range reloadLooks {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(firstReloadWait << look):
		}
		if now, err = bus.InhibitDelay(ctx); err != nil {
			return fmt.Errorf("ask for InhibitDelayMaxSec: %w", err)
		}
		if now >= needed {
			m.cfg.Log.Info("Raised InhibitDelayMaxSec of logind", "to", now, "file", filepath.Join(dropInDir, dropIn))
			return nil
		}
	}
	return fmt.Errorf("a shutdown of the node may take %s, and InhibitDelayMaxSec of logind stays %s", needed, now)
}

// writeDropIn sets logind's delay on the node.
func writeDropIn(root hostfs.Root, delay time.Duration) (err error) {
	if err := root.MkdirAll(dropInDir); err != nil {
		return fmt.Errorf("make %s: %w", dropInDir, err)
	}
	dir, err := root.Open(dropInDir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return fmt.Errorf("open %s: %w", dropInDir, err)
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	file := filepath.Join(hostfs.FDPath(dir), dropIn)
	text := fmt.Sprintf("# Written by the shim of ManagedWorkload (--shutdown-grace-period)\n[Login]\n%s%d\n", delayKey, seconds(delay))
	if err := statefile.Replace(file, []byte(text)); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Join(dropInDir, dropIn), err)
	}
	return os.Chmod(file, 0o644) //nolint:gosec // as systemd's other files, for people to read
}

// kubeletDelay is the delay that a kubelet has asked for, 0 if none has.
func kubeletDelay(root hostfs.Root) time.Duration {
	data, err := root.ReadFile(filepath.Join(dropInDir, kubeletFile))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), delayKey); ok {
			if n, err := strconv.ParseUint(value, 10, 31); err == nil {
				return time.Duration(n) * time.Second
			}
		}
	}
	return 0
}

// seconds rounds up.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
