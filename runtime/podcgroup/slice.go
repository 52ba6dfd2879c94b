// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podcgroup

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"time"

	"github.com/containerd/cgroups/v3/cgroup2"
	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
)

const (
	systemdTimeout    = 30 * time.Second
	withoutSliceLimit = uint64(math.MaxUint64) // systemd's infinity
	// systemd keeps a quota as whole percents of a CPU, in microseconds a second.
	quotaPercent = 10000
)

// applySlice makes a slice with its limits, or changes those of one that is there.
// systemd has to know them: at every reload it applies what it knows. The files
// get what it would round.
func applySlice(ctx context.Context, path string, l limits) error {
	resources := resourcesV2(l)
	if l.pids == withoutLimit {
		resources.Pids = nil // a slice may have no such controller
	}
	if _, err := cgroup2.NewSystemd("", filepath.Base(path), -1, resources); err != nil {
		return err
	}
	if err := setSliceProperties(ctx, filepath.Base(path), sliceProperties(l)); err != nil {
		return fmt.Errorf("set the properties of the slice: %w", err)
	}
	slice, err := cgroup2.Load(path)
	if err != nil {
		return err
	}
	return slice.Update(resources)
}

func setSliceProperties(ctx context.Context, unit string, properties []dbus.Property) error {
	ctx, cancel := context.WithTimeout(ctx, systemdTimeout)
	defer cancel()
	conn, err := dbus.NewWithContext(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.SetUnitPropertiesContext(ctx, unit, true, properties...)
}

// sliceProperties are limits as systemd takes them.
func sliceProperties(l limits) []dbus.Property {
	return []dbus.Property{
		sliceProperty(cpuLimit, l.quota),
		sliceProperty(memoryLimit, l.memory),
		sliceProperty(pidsLimit, l.pids),
		{Name: "CPUWeight", Value: godbus.MakeVariant(cgroup2.ConvertCPUSharesToCgroupV2Value(l.shares))},
	}
}

// sliceProperty is one limit as systemd takes it.
func sliceProperty(k limitKind, value int64) dbus.Property {
	limit := withoutSliceLimit
	if value != withoutLimit {
		limit = uint64(value)
		if k == cpuLimit {
			const perSecond = uint64(time.Second/time.Microsecond) / quotaPeriod
			limit = (limit*perSecond + quotaPercent - 1) / quotaPercent * quotaPercent
		}
	}
	return dbus.Property{Name: limitFiles[k].property, Value: godbus.MakeVariant(limit)}
}
