// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/hostfs"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// A dead init container that went away meanwhile is removed: there is no failure to
// log. Another error of the runtime is one.
func TestRemovalOfInitContainersThatAreGone(t *testing.T) {
	for kind, wantLines := range map[string]int{"NotFound": 0, "Unknown": 1} {
		t.Run(kind, func(t *testing.T) {
			f := newFakeRuntime()
			f.running("init", func(c *fakeContainer) { c.State, c.RemoveError = plan.ContainerExited, kind })
			var lines []string
			ctx := logr.NewContext(t.Context(), funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
			pod := testPod(30, func(pod *corev1.Pod) { pod.Spec.InitContainers = []corev1.Container{{Name: "init"}} })
			observed := &plan.PodStatus{Containers: []plan.ContainerStatus{{ID: "init-id", Name: "init", State: plan.ContainerExited}}}
			(&syncRun{e: newFakeExecutor(f), in: plan.SyncRequest{Pod: pod, Observed: observed}}).purgeInitContainers(ctx)
			if len(lines) != wantLines {
				t.Errorf("logged %q, want %d lines", lines, wantLines)
			}
		})
	}
}

// A file system with logs that does not answer holds no removal for long, and none
// of a sync that a deletion has ended.
func TestLogsOnAHungFileSystem(t *testing.T) {
	for name, wantErr := range map[string]error{"for long": hostfs.ErrHung, "after the deletion": context.Canceled} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeRuntime()
				log := filepath.Join(t.TempDir(), "0.log")
				f.running("app", func(c *fakeContainer) { c.State, c.LogPath = plan.ContainerExited, log })
				e := newFakeExecutor(f)
				answer := make(chan struct{})
				go func() {
					_ = e.disk.Do(t.Context(), filepath.Dir(log), func() error { <-answer; return nil })
				}()
				synctest.Wait()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if errors.Is(wantErr, context.Canceled) {
					time.AfterFunc(time.Second, cancel)
				}
				asked := time.Now()
				err := e.removeContainer(ctx, "app-id", false)
				if took := time.Since(asked); !errors.Is(err, wantErr) || took > hostfs.DefaultPatience {
					t.Errorf("error %v after %s, want %v", err, took, wantErr)
				}
				if slices.ContainsFunc(f.Trace(), func(e entry) bool { return strings.HasPrefix(e.Text("op"), "Remove") }) {
					t.Error("the container was removed before its logs")
				}
				close(answer)
				synctest.Wait()
			})
		})
	}
}
