// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package diskusage

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/runtime/hostfs/mounttest"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// fakeRuntime has a writable layer of 4 MiB for each pod.
type fakeRuntime struct {
	imagesAt string
	err      error
	// takes is how long an answer takes.
	takes time.Duration
	mu    sync.Mutex
	// asked are the pods that were asked about, busy how many at the moment, and most how many
	// there were at once.
	asked      []types.UID
	busy, most int
}

func (r *fakeRuntime) WritableLayers(_ context.Context, uid types.UID) (map[string]int64, error) {
	r.mu.Lock()
	r.asked = append(r.asked, uid)
	r.busy++
	r.most = max(r.most, r.busy)
	r.mu.Unlock()
	time.Sleep(r.takes)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy--
	return map[string]int64{"c": 4 * mib}, r.err
}

func (r *fakeRuntime) ImageFilesystem(context.Context) (string, error) { return r.imagesAt, nil }

func (r *fakeRuntime) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.asked)
}

// rounded is a usage in MiB.
func rounded(used plan.DiskUsage) plan.DiskUsage {
	round := func(bytes int64) int64 { return (bytes + mib/2) / mib }
	for _, parts := range []map[string]int64{used.Volumes, used.Containers} {
		for name, bytes := range parts {
			parts[name] = round(bytes)
		}
	}
	used.Pod = round(used.Pod)
	return used
}

// A pod uses its emptyDirs on the disk, its logs, hosts file and writable layers; a container
// its logs and its layer.
func TestMeasure(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	dir := t.TempDir()
	places := Places{EmptyDirs: filepath.Join(dir, "emptydirs"), Logs: filepath.Join(dir, "logs"), HostsFile: filepath.Join(dir, "hosts")}
	write(t, filepath.Join(places.EmptyDirs, "disk/a/file"), 16*mib)
	mounttest.MountTmpfs(t, filepath.Join(places.EmptyDirs, "memory"))
	write(t, filepath.Join(places.EmptyDirs, "memory/file"), mib)
	write(t, filepath.Join(places.Logs, "c/0.log"), mib)
	write(t, filepath.Join(places.Logs, "d/0.log"), 2*mib)
	write(t, places.HostsFile, 64*mib)
	mounttest.MountTmpfs(t, filepath.Join(dir, "images"))
	failed := errors.New("no answer")
	volumes := map[string]int64{"disk": 16, "memory": 1}
	for name, tt := range map[string]struct {
		runtime *fakeRuntime
		places  Places
		want    plan.DiskUsage
		err     error
	}{
		"one disk": {
			&fakeRuntime{imagesAt: dir}, places,
			plan.DiskUsage{Volumes: volumes, Pod: 16 + 3 + 64 + 4, Containers: map[string]int64{"c": 5, "d": 2}}, nil,
		},
		"the runtime has its own": {
			&fakeRuntime{imagesAt: filepath.Join(dir, "images")}, places,
			plan.DiskUsage{Volumes: volumes, Pod: 16 + 3 + 64 + 4, Containers: map[string]int64{"c": 1, "d": 2}}, nil,
		},
		"the runtime does not answer": {
			&fakeRuntime{err: failed}, places,
			plan.DiskUsage{Volumes: volumes, Pod: 16 + 3 + 64, Containers: map[string]int64{"c": 1, "d": 2}}, failed,
		},
		"nothing is there yet": {
			&fakeRuntime{imagesAt: dir}, Places{filepath.Join(dir, "no/e"), filepath.Join(dir, "no/l"), filepath.Join(dir, "no/h")},
			plan.DiskUsage{Volumes: map[string]int64{}, Pod: 4, Containers: map[string]int64{"c": 4}}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := New(Config{Places: func(Pod) Places { return tt.places }, Runtime: tt.runtime, PodsDir: dir, Logger: logr.Discard()})
			used, bound, err := k.measure(t.Context(), Pod{UID: "a"})
			if diff := cmp.Diff(tt.want, rounded(used)); diff != "" || !errors.Is(err, tt.err) || bound != nil {
				t.Errorf("%s\nerror %v, want %v; bound %v", diff, err, tt.err, bound)
			}
		})
	}
}

// run runs a keeper over pods until the end of the test.
func run(t *testing.T, runtime *fakeRuntime, pods func() []Pod) *Keeper {
	t.Helper()
	k := New(Config{
		Pods: pods, Places: func(Pod) Places { return Places{} }, Runtime: runtime, Logger: logr.Discard(),
		Measured: func(types.UID, plan.DiskUsage, error) {},
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- k.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		mounttest.Must(t, <-done)
	})
	return k
}

// Pods are measured each 10 s, four at a time; an urgent one at once, when it is asked for.
func TestKeeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runtime := &fakeRuntime{takes: 10 * time.Millisecond}
		pods := []Pod{{UID: "a"}, {UID: "b"}, {UID: "c"}, {UID: "d"}, {UID: "e"}}
		k := run(t, runtime, func() []Pod { return pods })
		time.Sleep(65 * time.Second)
		if n := runtime.count(); n != 30 || runtime.most != 4 {
			t.Errorf("%d measurements within 65 s, want 30; %d at once, want 4", n, runtime.most)
		}
		pods = []Pod{{UID: "a"}, {UID: "b", Urgent: true}}
		k.Kick()
		time.Sleep(time.Second)
		if n := runtime.count(); n != 31 || runtime.asked[30] != "b" {
			t.Errorf("asked %v", runtime.asked)
		}
	})
}

// A pod that takes long takes a tenth of the time, and at most a minute between two.
func TestKeeperRests(t *testing.T) {
	for takes, want := range map[time.Duration]int{3 * time.Second: 20, 20 * time.Second: 8} {
		synctest.Test(t, func(t *testing.T) {
			runtime := &fakeRuntime{takes: takes}
			run(t, runtime, func() []Pod { return []Pod{{UID: "a"}} })
			time.Sleep(10 * time.Minute)
			if n := runtime.count(); n != want {
				t.Errorf("%v each: %d measurements within 10 min, want %d", takes, n, want)
			}
		})
	}
}
