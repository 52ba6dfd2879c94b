// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package pressure

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// errNoMemoryCgroup says that the kernel does not count the memory of the root cgroup here.
var errNoMemoryCgroup = errors.New("the root cgroup has no memory statistics")

// memory is all memory, and what of it is no part of the working set of the root cgroup: what is
// used but for file pages that were not used lately.
// (kubelet stats/helper.go:cadvisorInfoToCPUandMemoryStats; cadvisor container/raw, libcontainer)
func (m *Machine) memory() (plan.Observation, error) {
	info, err := readFields(filepath.Join(m.proc, "meminfo"))
	if err != nil {
		return plan.Observation{}, err
	}
	total, found := info["MemTotal:"]
	if !found {
		return plan.Observation{}, errors.New("meminfo has no MemTotal")
	}
	total *= 1024
	used, err := m.workingSet()
	if err != nil {
		return plan.Observation{}, err
	}
	return observation(total-min(used, total), total, resource.BinarySI), nil
}

// workingSet is that of the root cgroup, of either version.
func (m *Machine) workingSet() (uint64, error) {
	stat, err := readFields(filepath.Join(m.cgroups, "memory.stat"))
	if err == nil {
		return above(stat["anon"]+stat["file"], stat["inactive_file"]), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	stat, err = readFields(filepath.Join(m.cgroups, "memory", "memory.stat"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, errNoMemoryCgroup
	}
	if err != nil {
		return 0, err
	}
	usage, err := readNumber(filepath.Join(m.cgroups, "memory", "memory.usage_in_bytes"))
	return above(usage, stat["total_inactive_file"]), err
}

func above(n, less uint64) uint64 { return n - min(n, less) }

// pids is how many processes and threads the kernel allows, and how many more there may be.
// (kubelet stats/pidlimit/pidlimit_linux.go:Stats)
func (m *Machine) pids() (plan.Observation, error) {
	var limit uint64
	var errs []error
	for _, name := range []string{"pid_max", "threads-max"} {
		n, err := readNumber(filepath.Join(m.proc, "sys", "kernel", name))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if limit == 0 || n < limit {
			limit = n
		}
	}
	if limit == 0 {
		return plan.Observation{}, errors.Join(errs...)
	}
	running, err := m.running()
	if err != nil {
		return plan.Observation{}, err
	}
	return observation(above(limit, running), limit, resource.DecimalSI), nil
}

// running is how many processes and threads there are.
func (m *Machine) running() (uint64, error) {
	path := filepath.Join(m.proc, "loadavg")
	data, err := os.ReadFile(path) //nolint:gosec // a file of the kernel
	if err != nil {
		return 0, err
	}
	// As in 1.36 3.49 4.53 2/3518 3715089.
	fields := strings.Fields(string(data))
	if len(fields) < 4 {
		return 0, fmt.Errorf("%s: %q is too short", path, data)
	}
	_, all, _ := strings.Cut(fields[3], "/")
	n, err := strconv.ParseUint(all, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	return n, nil
}

// readFields reads a file with a name and a number in each line; other lines are left out.
func readFields(path string) (map[string]uint64, error) {
	data, err := os.ReadFile(path) //nolint:gosec // a file of the kernel
	if err != nil {
		return nil, err
	}
	fields := map[string]uint64{}
	for s := bufio.NewScanner(bytes.NewReader(data)); s.Scan(); {
		parts := strings.Fields(s.Text())
		if len(parts) < 2 {
			continue
		}
		if n, err := strconv.ParseUint(parts[1], 10, 64); err == nil {
			fields[parts[0]] = n
		}
	}
	return fields, nil
}

func readNumber(path string) (uint64, error) {
	data, err := os.ReadFile(path) //nolint:gosec // a file of the kernel
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	return n, nil
}
