// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/criproxy"
	"github.com/managedworkload/managedworkload/hack/faults/history"
	"github.com/managedworkload/managedworkload/hack/faults/inject"
)

const (
	// pointTimeout is how long a fault waits for its point.
	pointTimeout = 4 * time.Second
	// backupEvery is the number of faults between two copies of etcd.
	backupEvery = 5
	// backupAge is how old a copy is that etcd is restored from, once the campaign
	// has lasted as long.
	backupAge = 2 * time.Minute
)

// made are the faults that were made.
type made struct {
	mu     sync.Mutex
	faults []history.Fault
}

func newMade() *made { return &made{} }

func (m *made) add(f history.Fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults = append(m.faults, f)
}

func (m *made) list() []history.Fault {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]history.Fault(nil), m.faults...)
}

func (m *made) counts() map[Kind]int {
	counts := map[Kind]int{}
	for _, f := range m.list() {
		counts[Kind(f.Kind)]++
	}
	return counts
}

// backup is a copy of etcd.
type backup struct {
	folder string
	at     time.Time
}

// backups are the copies of etcd, in the order of their time.
type backups []backup

// old returns the youngest copy that is old enough, else the oldest.
func (b backups) old() backup {
	chosen := b[0]
	for _, copied := range b[1:] {
		if time.Since(copied.at) >= backupAge {
			chosen = copied
		}
	}
	return chosen
}

// prune removes copies that are older than needed.
func (b backups) prune() (backups, error) {
	var errs []error
	for len(b) > 1 && b.old() != b[0] {
		errs = append(errs, os.RemoveAll(b[0].folder))
		b = b[1:]
	}
	return b, errors.Join(errs...)
}

// makeFaults makes the faults of the schedule, some beside others.
func (c *campaign) makeFaults(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	var mu sync.Mutex
	var errs []error
	var copies backups
	for i, p := range schedule(c.opts.Seed, c.opts.Faults) {
		if !p.beside {
			running.Wait()
		}
		if i%backupEvery == 0 {
			running.Wait()
			folder, at, err := c.etcd.Backup(ctx)
			if err != nil {
				return fmt.Errorf("copy etcd: %w", err)
			}
			if copies, err = append(copies, backup{folder, at}).prune(); err != nil {
				return fmt.Errorf("remove a copy of etcd: %w", err)
			}
		}
		if !pause(ctx, nil, p.gap) {
			break
		}
		copied := copies.old()
		running.Go(func() {
			c.awaitPoint(ctx, p)
			c.progress("fault %d: %s for %s at %s", i+1, p.kind, p.lasts, pointName(p))
			fault, err := c.make(ctx, p, copied)
			if errors.Is(err, errMetNothing) {
				c.progress("  %s met nothing", p.kind)
				return
			}
			if err != nil && ctx.Err() == nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, fmt.Errorf("fault %d, %s: %w", i+1, p.kind, err))
				return
			}
			c.made.add(fault)
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// awaitPoint waits for the call at which the fault is to be made.
func (c *campaign) awaitPoint(ctx context.Context, p planned) {
	if p.point == "" {
		return
	}
	rule := criproxy.NewRule(criproxy.Watch, 1, p.point)
	c.proxy.Add(rule)
	defer c.proxy.Remove(rule)
	ctx, cancel := context.WithTimeout(ctx, pointTimeout)
	defer cancel()
	rule.Await(ctx)
}

func pointName(p planned) string {
	if p.point == "" {
		return "any moment"
	}
	return p.point
}

// make makes a fault and heals it.
func (c *campaign) make(ctx context.Context, p planned, copied backup) (history.Fault, error) {
	// Events that are cut and a disk that fails excuse nothing, nor does the clock.
	f := history.Fault{Kind: string(p.kind), From: time.Now()}
	var err error
	switch p.kind {
	case KillShim, StopShim:
		f.Node, f.API, f.Forgetful = true, true, p.kind == KillShim
		err = c.disturb(ctx, "shim", p, p.kind == KillShim)
	case KillContainerd, StopContainerd:
		f.Node, f.Forgets = true, p.kind == KillContainerd
		err = c.disturb(ctx, "containerd", p, p.kind == KillContainerd)
	case KillManager, StopManager:
		f.API = true
		err = c.disturb(ctx, "manager", p, p.kind == KillManager)
	case KillAPIServer, StopAPIServer:
		f.API = true
		err = c.disturb(ctx, "kube-apiserver", p, p.kind == KillAPIServer)
	case KillEtcd, StopEtcd:
		c.etcdTurn.Lock()
		f.API, f.From = true, time.Now()
		err = c.disturb(ctx, "etcd", p, p.kind == KillEtcd)
		c.etcdTurn.Unlock()
	case RestoreEtcd:
		c.etcdTurn.Lock()
		f.API, f.Backup, f.From = true, copied.at, time.Now()
		f.Has, err = c.restoreEtcd(ctx, copied.folder)
		c.etcdTurn.Unlock()
	case KillRuntimeShim, StopRuntimeShim:
		f.Node = true
		err = c.disturbRuntimeShim(ctx, p, &f)
	case DiskFull, DiskError, DiskHangs:
		c.diskTurn.Lock()
		f.Disk, f.Unwritten, f.From = p.kind == DiskHangs, true, time.Now()
		err = c.breakDisk(ctx, p)
		c.diskTurn.Unlock()
	case EventsCut:
		c.proxy.CutEvents(p.choice%2 == 0)
		err = wait(ctx, p.lasts)
		c.proxy.AcceptEvents()
	case CallFails, CallAnswerLost, CallHangs, CallAnsweredTwo:
		f.Node = true
		err = c.breakCalls(ctx, p)
	case ClockOffset:
		err = c.offsetClock(ctx, p)
	}
	f.To = time.Now()
	return f, err
}

// restoreEtcd returns what the copy has: the revision of each NodeWorkload's
// template, by UID.
func (c *campaign) restoreEtcd(ctx context.Context, folder string) (map[string]int, error) {
	values, err := c.etcd.Restore(ctx, folder, storedPrefix)
	if err != nil {
		return nil, err
	}
	has := map[string]int{}
	for _, value := range values {
		var nw v1alpha1.NodeWorkload
		if err := json.Unmarshal(value, &nw); err != nil {
			return nil, fmt.Errorf("object of the copy: %w", err)
		}
		revision, err := strconv.Atoi(nw.Spec.Template.Annotations[annotationRevision])
		if err != nil {
			return nil, fmt.Errorf("NodeWorkload %s of the copy: %w", nw.Name, err)
		}
		has[string(nw.UID)] = revision
	}
	return has, nil
}

// offsets are how far the shim's wall clock is set forward or back.
var offsets = []string{"-8760h", "-1h", "-40s", "-3s", "3s", "40s", "1h", "8760h"}

// offsetClock sets the shim's wall clock, and after a time back to the machine's,
// which is a jump as well. It excuses nothing.
func (c *campaign) offsetClock(ctx context.Context, p planned) error {
	file := c.offsetFile()
	if err := os.WriteFile(file, []byte(offsets[p.choice%uint64(len(offsets))]), 0o600); err != nil {
		return err
	}
	return errors.Join(wait(ctx, p.lasts), os.WriteFile(file, []byte("0s"), 0o600))
}

func (c *campaign) offsetFile() string { return filepath.Join(c.stack.StateDir(), "clock-offset") }

func (c *campaign) disturb(ctx context.Context, name string, p planned, kill bool) error {
	s := c.services[name]
	if kill {
		return s.KillFor(ctx, p.lasts)
	}
	return s.StopFor(ctx, p.lasts)
}

// errMetNothing: no access and no call came while a fault was there; it was none.
var errMetNothing = errors.New("the fault met nothing")

// breakDisk has the disk fail for its time, and until it has met an access.
func (c *campaign) breakDisk(ctx context.Context, p planned) error {
	c.disk.Break(map[Kind]inject.DiskFault{DiskFull: inject.NoSpace, DiskError: inject.IOError, DiskHangs: inject.NoAnswer}[p.kind])
	err := wait(ctx, p.lasts)
	for end := time.Now().Add(pointTimeout); err == nil && c.disk.Met() == 0 && time.Now().Before(end); {
		err = wait(ctx, 100*time.Millisecond)
	}
	met := c.disk.Heal()
	c.progress("  %s met %d accesses", p.kind, met)
	if err == nil && met == 0 {
		return errMetNothing
	}
	return err
}

// breakCalls has calls fail: all of the point, or of any kind. If none of the point
// comes, it is any kind too: a fault that meets nothing is none.
func (c *campaign) breakCalls(ctx context.Context, p planned) error {
	effect := map[Kind]criproxy.Effect{
		CallFails: criproxy.Fail, CallAnswerLost: criproxy.FailAfter, CallHangs: criproxy.Hang, CallAnsweredTwo: criproxy.Twice,
	}[p.kind]
	if p.point != "" {
		rule := criproxy.NewRule(effect, 0, p.point)
		c.proxy.Add(rule)
		defer c.proxy.Remove(rule)
		// The call that was waited for is past; the fault is for those that follow.
		met, cancel := context.WithTimeout(ctx, pointTimeout)
		defer cancel()
		if rule.Await(met) {
			err := wait(ctx, p.lasts)
			c.progress("  %s met %d calls", p.kind, rule.Taken())
			return err
		}
	}
	rule := criproxy.NewRule(effect, 0)
	c.proxy.Add(rule)
	err := wait(ctx, p.lasts)
	met, cancel := context.WithTimeout(ctx, pointTimeout)
	defer cancel()
	rule.Await(met)
	c.proxy.Remove(rule)
	taken := rule.Taken()
	c.progress("  %s met %d calls of any kind", p.kind, taken)
	if err == nil && taken == 0 {
		return errMetNothing
	}
	return err
}

// disturbRuntimeShim kills or stops the runtime shim of a pod.
func (c *campaign) disturbRuntimeShim(ctx context.Context, p planned, f *history.Fault) error {
	for range 50 {
		shims, err := inject.RuntimeShims(c.stack.StateDir())
		if err != nil {
			return err
		}
		uids, err := c.podUIDs(ctx)
		if err == nil {
			shims = slices.DeleteFunc(shims, func(s inject.RuntimeShim) bool { return uids[s.SandboxID] == "" }) // just made, or just ending
		}
		if err != nil || len(shims) == 0 {
			if err := wait(ctx, retryAfter); err != nil {
				return err
			}
			continue
		}
		s := shims[p.choice%uint64(len(shims))]
		f.From, f.Pod, f.Sandbox, f.Killed = time.Now(), uids[s.SandboxID], s.SandboxID, p.kind == KillRuntimeShim
		if !f.Killed {
			return s.StopFor(ctx, p.lasts)
		}
		return s.Kill()
	}
	return errors.New("no pod has a runtime shim")
}

// podUIDs are the UIDs of the sandboxes.
func (c *campaign) podUIDs(ctx context.Context) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	list, err := c.cri.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return nil, err
	}
	uids := map[string]string{}
	for _, s := range list.GetItems() {
		uids[s.GetId()] = s.GetMetadata().GetUid()
	}
	return uids, nil
}

func wait(ctx context.Context, d time.Duration) error {
	if !pause(ctx, nil, d) {
		return ctx.Err()
	}
	return nil
}

func (c *campaign) progress(format string, args ...any) {
	if c.opts.Progress != nil {
		_, _ = fmt.Fprintf(c.opts.Progress, time.Now().Format("15:04:05.000 ")+format+"\n", args...)
	}
}
