// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package pressure

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// imagesAt is where a runtime says that it keeps images.
type imagesAt string

func (i imagesAt) ImageFilesystem(context.Context) (string, error) {
	if i == "" {
		return "", errors.New("the runtime does not answer")
	}
	return string(i), nil
}

// machine is one whose kernel shows these files.
func machine(t *testing.T, files map[string]string, images imagesAt) *Machine {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m := NewMachine(dir, dir, "", images)
	m.proc, m.cgroups = filepath.Join(dir, "proc"), filepath.Join(dir, "cgroup")
	return m
}

// kernel is what both versions of cgroups have.
func kernel(more map[string]string) map[string]string {
	files := map[string]string{
		"proc/meminfo":                "MemTotal:       1000 kB\nMemFree:  10 kB\n",
		"proc/loadavg":                "1.36 3.49 4.53 2/300 3715089\n",
		"proc/sys/kernel/pid_max":     "32768\n",
		"proc/sys/kernel/threads-max": "1000\n",
	}
	maps.Copy(files, more)
	return files
}

// Memory that is available is all but the working set of the root cgroup, in both versions, and
// process IDs are those that the lower limit leaves.
func TestObserveKernel(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		files  map[string]string
		memory string
	}{
		"cgroup v2": {map[string]string{"cgroup/memory.stat": "anon 102400\nfile 204800\ninactive_file 51200\n"}, "750Ki of 1000Ki"},
		"cgroup v1": {map[string]string{
			"cgroup/memory/memory.stat": "inactive_file 1\ntotal_inactive_file 51200\n", "cgroup/memory/memory.usage_in_bytes": "307200\n",
		}, "750Ki of 1000Ki"},
		"more inactive than used": {map[string]string{"cgroup/memory.stat": "anon 0\nfile 1024\ninactive_file 51200\n"}, "1000Ki of 1000Ki"},
		"more used than there is": {map[string]string{"cgroup/memory.stat": "anon 10240000\nfile 0\n"}, "0 of 1000Ki"},
		"no memory cgroup":        {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			observed, _, err := machine(t, kernel(tt.files), "/").Observe(t.Context())
			if (err != nil) != (tt.memory == "") {
				t.Errorf("error %v", err)
			}
			if diff := cmp.Diff(tt.memory, said(observed, plan.SignalMemoryAvailable)); diff != "" {
				t.Error(diff)
			}
			if got := said(observed, plan.SignalPIDAvailable); got != "700 of 1k" {
				t.Errorf("process IDs: %s", got)
			}
		})
	}
}

func said(observed plan.Observations, s plan.Signal) string {
	if len(observed[s]) == 0 {
		return ""
	}
	return observed[s][0].Available.String() + " of " + observed[s][0].Capacity.String()
}

// Where the runtime does not answer, or a directory is not there, the other signals are still
// observed; images on another file system are a disk of their own.
func TestObserveFileSystems(t *testing.T) {
	t.Parallel()
	m := machine(t, kernel(nil), "")
	observed, separate, err := m.Observe(t.Context())
	if err == nil || separate || len(observed[plan.SignalNodeFsAvailable]) != 1 || len(observed[plan.SignalImageFsAvailable]) != 0 {
		t.Errorf("separate %t, error %v, observed %v", separate, err, observed)
	}
	m.Images, m.LogDir = imagesAt("/proc"), "/proc"
	observed, separate, _ = m.Observe(t.Context())
	if !separate || len(observed[plan.SignalNodeFsAvailable]) != 2 || len(observed[plan.SignalImageFsInodesFree]) != 0 {
		t.Errorf("separate %t, observed %v", separate, observed)
	}
	m.Images, m.LogDir = imagesAt(m.StateDir), filepath.Join(m.StateDir, "missing")
	observed, separate, err = m.Observe(t.Context())
	if err == nil || separate || len(observed[plan.SignalNodeFsAvailable]) != 1 || len(observed[plan.SignalImageFsAvailable]) != 1 {
		t.Errorf("separate %t, error %v, observed %v", separate, err, observed)
	}
}
