// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shutdown

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// Our files of logind's configuration. The last name that sets the delay counts, in whichever
// directory it is: the first one lowers no other's. Only where another sets less than we need, ours
// has to come after it. (kubelet nodeshutdown/systemd/inhibit_linux.go)
const (
	dropInDir  = "/etc/systemd/logind.conf.d"
	dropIn     = "00-managedworkload.conf"
	lastDropIn = "99-managedworkload.conf"
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
	others := othersDelay(m.cfg.HostRoot)
	hides := !others.tooLittle(needed) && hasDropIn(m.cfg.HostRoot, lastDropIn)
	if now >= needed && !hides {
		return nil
	}
	for _, name := range others.names(needed) {
		if now, err = m.configure(ctx, bus, name, needed); err != nil {
			return fmt.Errorf("raise InhibitDelayMaxSec: %w", err)
		}
		if now >= needed {
			m.cfg.Log.Info("Raised InhibitDelayMaxSec of logind", "to", now, "file", filepath.Join(dropInDir, name))
			return nil
		}
	}
	return fmt.Errorf("a shutdown of the node may take %s, and InhibitDelayMaxSec of logind stays %s", needed, now)
}

// configure writes a file of ours in place of one that hides others, has logind read it, and returns the delay that counts then.
func (m *Manager) configure(ctx context.Context, bus Logind, name string, needed time.Duration) (now time.Duration, err error) {
	if err := writeDropIn(m.cfg.HostRoot, name, needed); err != nil {
		return 0, err
	}
	if name == dropIn { // only now: a crash in between leaves one of them
		if err := removeDropIn(m.cfg.HostRoot, lastDropIn); err != nil {
			return 0, fmt.Errorf("remove %s: %w", lastDropIn, err)
		}
	}
	if err := bus.Reload(ctx); err != nil {
		return 0, fmt.Errorf("have logind read its configuration: %w", err)
	}
	for look := range reloadLooks {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(firstReloadWait << look):
		}
		if now, err = bus.InhibitDelay(ctx); err != nil {
			return 0, fmt.Errorf("ask for InhibitDelayMaxSec: %w", err)
		}
		if now >= needed {
			break
		}
	}
	return now, nil
}

// seconds rounds up.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
