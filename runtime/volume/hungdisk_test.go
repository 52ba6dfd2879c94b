// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/objects"
	"github.com/managedworkload/managedworkload/runtime/hostfs/mounttest"
)

// hang has the disk not answer about a volume of a pod: its mark becomes a pipe.
func hang(t *testing.T, m *Manager, pod *corev1.Pod, volume string) {
	t.Helper()
	v, k := m.find(pod, volume)
	pipe := m.sourceMark(pod, k, v)
	if err := os.MkdirAll(filepath.Dir(pipe), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(pipe); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f, err := os.OpenFile(pipe, os.O_RDWR, 0) // lets both readers and writers continue
		if err != nil {
			t.Error(err)
			return
		}
		_ = f.Close()
	})
}

// The files of a pod that runs follow its objects while the disk with the shim's state does not
// answer: neither what is known of that pod on the disk is needed, nor do pods that start, and wait
// for the disk, hold it up.
func TestFilesFollowWhileTheStateDiskHangs(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	api := newObjects()
	m := managerOf(t, api)
	api.set(objects.ConfigMap, "conf", "a", "1")
	running := withVolumes(configMapVolume("v", "conf"))
	running.UID = "running"
	prepare(t, m, running)
	hang(t, m, running, "v")
	ctx, cancel := context.WithCancel(t.Context())
	var starts sync.WaitGroup
	defer starts.Wait()
	defer cancel()
	var starting []*corev1.Pod
	for i := range maxWriters {
		pod := withVolumes(configMapVolume("v", "conf"))
		pod.UID = types.UID(fmt.Sprint("starting-", i))
		hang(t, m, pod, "v")
		starting = append(starting, pod)
		starts.Go(func() { _ = m.WaitForMount(ctx, pod) })
	}
	eventually(t, "the pods that start show their files", func() bool {
		for _, pod := range starting {
			if shown(t, m, pod, "v")["a"] != "1" {
				return false
			}
		}
		return true
	})
	api.set(objects.ConfigMap, "conf", "a", "2")
	m.Refresh("ns", []objects.Ref{configMapRef("conf")})
	eventually(t, "the pod that runs shows the new content", func() bool { return shown(t, m, running, "v")["a"] == "2" })
	prepare(t, m, running) // a container of it starts again
}

// eventually waits a short time for something that another goroutine does.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for begun := time.Now(); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Since(begun) > 5*time.Second {
			t.Fatalf("not within %v: %s", time.Since(begun), what)
		}
	}
}
