// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

func TestCheckpointRoundTrip(t *testing.T) {
	dir := t.TempDir()
	store, err := NewCheckpoints(dir, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	want := &Checkpoint{
		Identity: Identity{UID: "u", Namespace: "ns", Name: "n"}, ClusterID: "cluster", BootID: "boot", State: Terminating,
		Pod:     template.Pod(workload("u")),
		PodHash: "h", TemplateHash: "g", Generation: 4, Grace: 9, Gone: true, RequestedBy: "kubectl",
		PodStatus: &corev1.PodStatus{Phase: corev1.PodRunning},
		Status:    v1alpha1.NodeWorkloadStatus{Kills: []v1alpha1.KillRecord{{ID: "1", Container: "c", Phase: v1alpha1.KillPhasePreStop}}},
		Details:   map[string]string{"1": "3x"},
		Backoff:   map[string]*plan.Backoff{"k": {Current: time.Minute, LastUpdate: time.Unix(7, 0).UTC()}},
	}
	if err := store.Save(want); err != nil {
		t.Fatal(err)
	}
	got, err := store.Load()
	if err != nil || len(got) != 1 {
		t.Fatalf("loaded %d, error %v", len(got), err)
	}
	if diff := cmp.Diff(want, got[0]); diff != "" {
		t.Errorf("(-saved +loaded)\n%s", diff)
	}
	info, err := os.Stat(filepath.Join(dir, "u.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, error %v", info.Mode(), err)
	}
	if err := os.WriteFile(filepath.Join(dir, "u.json.tmp"), []byte("{"), 0o600); err != nil { // a write has failed
		t.Fatal(err)
	}
	for range 2 {
		if err := store.Remove("u"); err != nil {
			t.Errorf("remove: %v", err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, error %v", left, err)
	}
}

func TestCheckpointNamesAreSafe(t *testing.T) {
	store, err := NewCheckpoints(t.TempDir(), logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	for _, uid := range []string{"", ".", "..", "../x", "a/b"} {
		if err := store.Save(&Checkpoint{Identity: Identity{UID: "x"}, State: Syncing}); err != nil {
			t.Fatal(err)
		}
		cp := &Checkpoint{State: Syncing}
		cp.Identity.UID = workload(uid).UID
		if store.Save(cp) == nil {
			t.Errorf("a UID %q became a file name", uid)
		}
	}
}

func TestBadCheckpointsAreMovedAside(t *testing.T) {
	tests := map[string]string{
		"not JSON":        `{"version":`,
		"another version": `{"version":9,"identity":{"uid":"u"},"state":"Syncing"}`,
		"another UID":     `{"version":1,"identity":{"uid":"v"},"state":"Syncing"}`,
		"unknown state":   `{"version":1,"identity":{"uid":"u"},"state":"Removed"}`,
		"empty":           ``,
	}
	for name, content := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "u.json")
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "half.json.tmp"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			store, err := NewCheckpoints(dir, logr.Discard())
			if err != nil {
				t.Fatal(err)
			}
			if got, err := store.Load(); err != nil || len(got) != 0 {
				t.Errorf("loaded %v, error %v", got, err)
			}
			if _, err := os.Stat(path + corruptSuffix); err != nil {
				t.Errorf("it was not kept aside: %v", err)
			}
			if _, err := os.Stat(filepath.Join(dir, "half.json.tmp")); err == nil {
				t.Error("half a file was kept")
			}
		})
	}
}

// A checkpoint that the disk does not give is not damaged: it is read at the next try.
func TestCheckpointThatCannotBeReadStays(t *testing.T) {
	dir := t.TempDir()
	store, err := NewCheckpoints(dir, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "u.json")
	if err := os.Symlink("/proc/self/mem", path); err != nil {
		t.Fatal(err)
	}
	if got, err := store.Load(); !errors.Is(err, syscall.EIO) {
		t.Errorf("loaded %v, error %v, want %v", got, err, syscall.EIO)
	}
	if err := os.Remove(path); err != nil {
		t.Fatalf("it was moved aside: %v", err)
	}
	if err := store.Save(&Checkpoint{Identity: Identity{UID: "u"}, State: Syncing}); err != nil {
		t.Fatal(err)
	}
	if got, err := store.Load(); err != nil || len(got) != 1 {
		t.Errorf("loaded %v, error %v once the disk answers", got, err)
	}
}

// A worker that is restored from a checkpoint finishes the kills of the process
// before, and starts nothing that runs.
func TestRestoreFinishesKills(t *testing.T) {
	tests := map[string]struct {
		state      State
		bootID     string
		wantPhase  v1alpha1.KillPhase
		wantResume bool
	}{
		"while syncing":     {Syncing, "boot", v1alpha1.KillPhasePreStop, true},
		"after a boot":      {Syncing, "earlier", v1alpha1.KillPhaseStopping, true},
		"while terminating": {Terminating, "boot", v1alpha1.KillPhasePreStop, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(t)
				pod := template.Pod(workload("a"))
				if tt.state == Terminating {
					pod.DeletionTimestamp = &metav1.Time{Time: time.Now()}
				}
				err := n.store.Save(&Checkpoint{
					Identity: Identity{UID: "a", Namespace: "ns", Name: "a"}, State: tt.state, BootID: tt.bootID, Pod: pod, Generation: 1,
					Status: v1alpha1.NodeWorkloadStatus{KillCount: 1, Kills: []v1alpha1.KillRecord{
						{ID: "old", Container: "c", ContainerID: "c-1", Phase: v1alpha1.KillPhaseDone},
						{ID: "1", Container: "c", ContainerID: "c-1", Phase: v1alpha1.KillPhasePreStop, StartTime: metav1.NowMicro()},
					}},
				})
				if err != nil {
					t.Fatal(err)
				}
				n.pods["a"] = &fakePod{sandbox: "s", containers: []plan.ContainerStatus{{ID: "c-1", Name: "c", SandboxID: "s", State: plan.ContainerRunning}}}
				n.start(t)
				n.settle(time.Second)
				open := n.resumed
				if !tt.wantResume {
					if len(n.killed) != 1 {
						t.Fatalf("%d pod kills", len(n.killed))
					}
					open = n.killed[0].Open
				}
				if len(open) != 1 || open[0].Record.ID != "1" || open[0].Record.Phase != tt.wantPhase {
					t.Errorf("resumed %+v, want the open one in phase %s", open, tt.wantPhase)
				}
				for _, c := range n.log() {
					if c == "start c image:1" {
						t.Error("a container that ran was started again")
					}
				}
			})
		})
	}
}

// Without an API server a worker continues from its checkpoint, and what it had to
// report is reported later.
func TestRestoreWithoutAPI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		n.apiDown = true
		err := n.store.Save(&Checkpoint{
			Identity: Identity{UID: "a", Namespace: "ns", Name: "a"}, State: Syncing, BootID: "boot", Pod: template.Pod(workload("a")), Generation: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		p := n.start(t)
		n.settle(time.Minute)
		if !n.did("start c image:1") {
			t.Error("nothing was started without an API server")
		}
		if known := p.Known(); len(known) != 1 || known[0].Seen {
			t.Errorf("known %+v, want one that the API has not confirmed", known)
		}
		n.mu.Lock()
		n.apiDown = false
		n.mu.Unlock()
		n.settle(time.Minute)
		if n.published("a").Summary != "Running" {
			t.Errorf("published %q", n.published("a").Summary)
		}
	})
}
