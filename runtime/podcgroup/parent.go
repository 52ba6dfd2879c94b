// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podcgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"github.com/containerd/cgroups/v3"
	"github.com/containerd/cgroups/v3/cgroup1"
	"github.com/containerd/cgroups/v3/cgroup2"
	"github.com/coreos/go-systemd/v22/dbus"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// boundsKeeper keeps the limits of the parent cgroup. Only what a flag bounds is
// touched; what was set for a flag is remembered, and goes with it.
type boundsKeeper struct {
	bounds Bounds
	file   string

	mu     sync.Mutex
	loaded bool
	claims claims
}

// errNotInForce says that a bound is not in force, and that nothing may start.
var errNotInForce = errors.New("a bound of the node is not in force")

// KeepBounds gives the parent cgroup its bounds, also where something else has changed
// them, and takes back those that were set for a flag that is not set any more. It
// returns whether there is anything to look after. A bound on memory or processes below
// what is in use waits: setting it now would have the kernel kill, or fail what forks.
func (m *Manager) KeepBounds(ctx context.Context) (again bool, err error) {
	k := &m.bounds
	k.mu.Lock()
	defer k.mu.Unlock()
	var errs []error
	if !k.loaded {
		k.claims, err = loadClaims(k.file)
		k.loaded = true
		errs = append(errs, err)
	}
	driver := m.currentDriver()
	ours := parentCgroup{driver: driver, path: m.pathOf("")}
	wanted := k.bounds.limits(driver)
	for path, held := range k.claims {
		if path != ours.path {
			errs = append(errs, k.settle(ctx, parentCgroup{held.Driver, path}, Bounds{}.limits(driver)))
		}
	}
	bounded := wanted != Bounds{}.limits(driver)
	if held := k.claims[ours.path]; bounded || held != nil {
		errs = append(errs, k.settle(ctx, ours, wanted))
	}
	return bounded || len(k.claims) > 0, errors.Join(errs...)
}

// bound is KeepBounds before something starts: an error says that it may not.
func (m *Manager) bound(ctx context.Context) error {
	if _, err := m.KeepBounds(ctx); errors.Is(err, errNotInForce) {
		return err
	}
	return nil
}

// settle brings the limits of one parent cgroup to what is wanted, none where nothing
// is. What is to be set is remembered before, what was taken back is forgotten after.
func (k *boundsKeeper) settle(ctx context.Context, c parentCgroup, wanted [limitKinds]int64) error {
	steps, errs := k.steps(ctx, c, wanted)
	claimed, released := false, false
	for _, s := range steps {
		if s.claim != nil {
			claimed = k.claims.set(c, s.kind, *s.claim) || claimed
		}
	}
	if claimed {
		errs = append(errs, k.claims.save(k.file))
	}
	for _, s := range steps {
		err := k.carryOut(ctx, c, s)
		errs = append(errs, err)
		if s.released && err == nil {
			k.claims.drop(c.path, s.kind)
			released = true
		}
	}
	if released {
		errs = append(errs, k.claims.save(k.file))
	}
	return errors.Join(errs...)
}

// steps reads the limits that are bounded, or were, and decides about each.
func (k *boundsKeeper) steps(ctx context.Context, c parentCgroup, wanted [limitKinds]int64) (steps []boundStep, errs []error) {
	for kind := range limitKinds {
		held := k.claims.of(c.path, kind)
		if held == nil && wanted[kind] == withoutLimit {
			continue
		}
		now, err := c.read(ctx, kind, wanted[kind] != withoutLimit)
		switch {
		case err == nil:
			steps = append(steps, nextStep(kind, now, wanted[kind], held))
		case wanted[kind] != withoutLimit:
			errs = append(errs, fmt.Errorf("%w: %s: %w", errNotInForce, k.bounds.flag(kind), err))
		case errors.Is(err, fs.ErrNotExist):
			steps = append(steps, boundStep{kind: kind, released: true})
		default:
			errs = append(errs, fmt.Errorf("read a limit of cgroup %s: %w", c.path, err))
		}
	}
	return steps, errs
}

// carryOut sets the limit of a step.
func (k *boundsKeeper) carryOut(ctx context.Context, c parentCgroup, s boundStep) error {
	if !s.change {
		return nil
	}
	err := c.set(ctx, s)
	switch {
	case err == nil:
		return nil
	case s.released:
		return fmt.Errorf("take back a limit of cgroup %s: %w", c.path, err)
	case s.kind == cpuLimit && errors.Is(err, unix.EINVAL):
		// Cgroup version 1 takes no quota below that of a child. CPU can be shared until
		// the child is gone.
		return fmt.Errorf("%s is not in force while a workload has a higher CPU limit: %w", k.bounds.flag(s.kind), err)
	}
	return fmt.Errorf("%w: %s: %w", errNotInForce, k.bounds.flag(s.kind), err)
}

// boundStep is what is to be done about one limit.
type boundStep struct {
	kind limitKind
	// change asks for value, in the place of now.
	change     bool
	value, now int64
	// claim is what is to be remembered, nil for nothing new.
	claim *claim
	// released is whether nothing is to be remembered afterwards.
	released bool
}

// nextStep decides about one limit: now is the cgroup's, wanted the flag's, and held
// what was set for a flag before, nil if nothing was.
func nextStep(kind limitKind, now, wanted int64, held *claim) boundStep {
	s := boundStep{kind: kind, now: now}
	switch {
	case wanted != withoutLimit && held == nil:
		s.claim = &claim{Set: wanted, Before: now}
		s.value, s.change = wanted, now != wanted
	case wanted != withoutLimit:
		s.claim = &claim{Set: wanted, Before: held.Before}
		s.value, s.change = wanted, now != wanted
	default:
		// Another limit than the one that was set is someone else's.
		s.released = true
		s.value, s.change = held.Before, now == held.Set && now != held.Before
	}
	return s
}

// lowers is whether a step leaves less than before.
func (s boundStep) lowers() bool {
	return s.value != withoutLimit && (s.now == withoutLimit || s.value < s.now)
}

// parentCgroup is a cgroup above pods.
type parentCgroup struct{ driver, path string }

// read reads a limit. Where one is wanted the cgroup is made.
func (c parentCgroup) read(ctx context.Context, kind limitKind, wanted bool) (int64, error) {
	now, err := readLimit(c.path, kind)
	if !wanted || !errors.Is(err, fs.ErrNotExist) {
		return now, err
	}
	if err := c.create(); err != nil {
		return 0, fmt.Errorf("make cgroup %s: %w", c.path, err)
	}
	now, err = readLimit(c.path, kind)
	if c.driver == DriverSystemd && errors.Is(err, fs.ErrNotExist) {
		// The property brings the file.
		return withoutLimit, ctx.Err()
	}
	return now, err
}

// create makes the cgroup, with no limits.
func (c parentCgroup) create() error {
	controllers := &cgroup2.Resources{CPU: &cgroup2.CPU{}, Memory: &cgroup2.Memory{}, Pids: &cgroup2.Pids{}}
	var err error
	switch mode := cgroups.Mode(); {
	case mode == cgroups.Unavailable:
		return errNoCgroups
	case mode != cgroups.Unified && c.driver == DriverSystemd:
		return errSystemdV1
	case mode != cgroups.Unified:
		_, err = cgroup1.New(cgroup1.StaticPath(c.path), &specs.LinuxResources{})
	case c.driver == DriverSystemd:
		_, err = cgroup2.NewSystemd("", filepath.Base(c.path), -1, controllers)
	default:
		_, err = cgroup2.NewManager(cgroupMount, c.path, controllers)
	}
	return err
}

// set sets the limit of a step.
func (c parentCgroup) set(ctx context.Context, s boundStep) error {
	if s.lowers() {
		use, err := inUse(c.path, s.kind)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if use > s.value {
			return fmt.Errorf("the workloads hold %d %s, more than %d; it is set once they hold less", use, limitFiles[s.kind].unit, s.value)
		}
	}
	if c.driver != DriverSystemd {
		return writeLimit(c.path, s.kind, s.value)
	}
	if err := setSliceProperties(ctx, filepath.Base(c.path), []dbus.Property{sliceProperty(s.kind, s.value)}); err != nil {
		return fmt.Errorf("set %s of the slice: %w", limitFiles[s.kind].property, err)
	}
	return c.awaitFile(ctx, s)
}

// Systemd applies a property soon after it has taken it.
const (
	propertyLooks = 7
	propertyWait  = 10 * time.Millisecond
)

// awaitFile writes what systemd was asked for, which may have to make the file first.
func (c parentCgroup) awaitFile(ctx context.Context, s boundStep) error {
	wait := propertyWait
	for look := 1; ; look++ {
		err := writeLimit(c.path, s.kind, s.value)
		if !errors.Is(err, fs.ErrNotExist) || look == propertyLooks {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(wait):
		}
		wait *= 2
	}
}
