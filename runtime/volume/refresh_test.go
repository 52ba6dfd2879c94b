// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/objects"
	"github.com/managedworkload/managedworkload/runtime/hostfs/mounttest"
)

func configMapRef(name string) objects.Ref {
	return objects.Ref{Kind: objects.ConfigMap, Name: name}
}

// refresh says that objects have changed and waits until all is done.
func refresh(m *Manager, refs ...objects.Ref) {
	m.Refresh("ns", refs)
	synctest.Wait()
}

// A change of objects reaches the pods that refer to them at once, and costs the others
// nothing, however many objects change in one call.
func TestRefresh(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	synctest.Test(t, func(t *testing.T) {
		api := newObjects()
		m := managerOf(t, api)
		var pods []*corev1.Pod
		var refs []objects.Ref
		for i := range 5 {
			name := fmt.Sprintf("conf-%d", i)
			api.set(objects.ConfigMap, name, "a", "1")
			pod := withVolumes(configMapVolume("v", name), configMapVolume("w", name))
			pod.UID = types.UID(name)
			prepare(t, m, pod)
			pods, refs = append(pods, pod), append(refs, configMapRef(name))
			api.set(objects.ConfigMap, name, "a", "2")
		}
		before := api.readCount()
		refresh(m, refs[:3]...)
		for i, want := range []string{"2", "2", "2", "1", "1"} {
			if got := shown(t, m, pods[i], "v")["a"]; got != want {
				t.Errorf("pod %d has %q, want %q", i, got, want)
			}
		}
		if got := api.readCount() - before; got != 6 {
			t.Errorf("%d objects were asked for, want one for each volume", got)
		}
		// Neither another kind nor another namespace is meant.
		m.Refresh("other", refs)
		refresh(m, objects.Ref{Kind: objects.Secret, Name: "conf-4"})
		if got := shown(t, m, pods[4], "v")["a"]; got != "1" {
			t.Errorf("the pod has %q without a change of its own", got)
		}
	})
}

// What cannot be had keeps what is there, and comes when it can be had again, without
// another call.
func TestFailedRefreshKeepsTheFiles(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	synctest.Test(t, func(t *testing.T) {
		api := newObjects()
		api.set(objects.ConfigMap, "conf", "a", "1")
		api.set(objects.ConfigMap, "other", "a", "1")
		m := managerOf(t, api)
		pod := withVolumes(configMapVolume("v", "conf"), configMapVolume("w", "other"))
		prepare(t, m, pod)
		api.mu.Lock()
		delete(api.data, configMapRef("conf"))
		api.mu.Unlock()
		api.set(objects.ConfigMap, "other", "a", "2")
		refresh(m, configMapRef("conf"), configMapRef("other"))
		if got := shown(t, m, pod, "v")["a"]; got != "1" {
			t.Errorf("a volume whose object was deleted has %q", got)
		}
		if got := shown(t, m, pod, "w")["a"]; got != "2" {
			t.Errorf("the other volume has %q", got)
		}
		api.setAway(true)
		time.Sleep(time.Hour)
		synctest.Wait()
		before := api.readCount()
		time.Sleep(time.Hour)
		synctest.Wait()
		if tries := (api.readCount() - before) / 2; tries < 40 || tries > 80 {
			t.Errorf("%d tries in an hour, want about one a minute", tries)
		}
		if got := shown(t, m, pod, "v")["a"]; got != "1" || len(m.Conditions(pod.UID)) != 1 {
			t.Errorf("with the manager away the volume has %q, conditions %v", got, m.Conditions(pod.UID))
		}
		api.setAway(false)
		api.set(objects.ConfigMap, "conf", "a", "3")
		time.Sleep(90 * time.Second)
		synctest.Wait()
		if got := shown(t, m, pod, "v")["a"]; got != "3" {
			t.Errorf("the volume has %q after the manager came back", got)
		}
	})
}

// A pod that waits for an object gets its volume with the news about it.
func TestRefreshSetsUpWhatWasMissing(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	synctest.Test(t, func(t *testing.T) {
		api := newObjects()
		m := managerOf(t, api)
		pod := withVolumes(configMapVolume("v", "conf"))
		if err := m.WaitForMount(t.Context(), pod); err == nil {
			t.Fatal("no error")
		}
		api.set(objects.ConfigMap, "conf", "a", "1")
		refresh(m, configMapRef("conf"))
		if got := shown(t, m, pod, "v")["a"]; got != "1" {
			t.Errorf("the volume has %q", got)
		}
	})
}

// A pod arrives before what it refers to: it waits for that without an error, for a short
// time, which ends with the news or the pod.
func TestObjectsThatAreStillToCome(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	synctest.Test(t, func(t *testing.T) {
		api := newObjects()
		api.set(objects.ConfigMap, "conf", "a", "1")
		api.setAway(true)
		m := managerOf(t, api)
		pod := withVolumes(configMapVolume("v", "conf"))
		began := time.Now()
		go func() {
			time.Sleep(2*time.Second + time.Millisecond)
			api.setAway(false)
			m.Refresh("ns", []objects.Ref{configMapRef("conf")})
		}()
		if err := m.WaitForMount(t.Context(), pod); err != nil || time.Since(began) > 2*time.Second+2*time.Millisecond {
			t.Errorf("error %v after %v", err, time.Since(began))
		}
		api.setAway(true)
		began = time.Now()
		other := withVolumes(configMapVolume("v", "other"))
		if err := m.WaitForMount(t.Context(), other); !errors.Is(err, errAway) || time.Since(began) != objectPatience {
			t.Errorf("error %v after %v", err, time.Since(began))
		}
		began = time.Now()
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errDeleted)
		defer cancel()
		if err := m.WaitForMount(ctx, other); !errors.Is(err, errDeleted) || time.Since(began) != time.Second {
			t.Errorf("error %v after %v", err, time.Since(began))
		}
	})
}

// A container may start again with the files that are there while the manager does not say
// what has become of them.
func TestFilesThatAreThereDoNotWaitForTheManager(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	synctest.Test(t, func(t *testing.T) {
		api := newObjects()
		api.set(objects.ConfigMap, "conf", "a", "1")
		m := managerOf(t, api)
		pod := withVolumes(configMapVolume("v", "conf"))
		prepare(t, m, pod)
		api.setAway(true)
		began := time.Now()
		if err := m.WaitForMount(t.Context(), pod); err != nil || time.Since(began) != 0 {
			t.Errorf("error %v after %v", err, time.Since(began))
		}
		if got := shown(t, m, pod, "v"); !maps.Equal(got, map[string]string{"a": "1"}) {
			t.Errorf("files %v", got)
		}
		api.set(objects.ConfigMap, "conf", "a", "2")
		api.setAway(false)
		m.Refresh("ns", []objects.Ref{configMapRef("conf")})
		synctest.Wait()
		if got := shown(t, m, pod, "v"); !maps.Equal(got, map[string]string{"a": "2"}) {
			t.Errorf("files %v", got)
		}
	})
}

var errDeleted = errors.New("it is deleted")

// Tokens are renewed by time: files are brought up to date within 60 to 90 s.
func TestFilesAreRenewedByTime(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	synctest.Test(t, func(t *testing.T) {
		api := newObjects()
		m := managerOf(t, api)
		pod := withVolumes(tokenVolume("v"))
		prepare(t, m, pod)
		api.mu.Lock()
		api.renewed = ", renewed"
		api.mu.Unlock()
		time.Sleep(59 * time.Second)
		synctest.Wait()
		if got := shown(t, m, pod, "v")["token"]; got != "token of web for vault" {
			t.Errorf("%q within a minute", got)
		}
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if got := shown(t, m, pod, "v")["token"]; got != "token of web for vault, renewed" {
			t.Errorf("%q after 90 s", got)
		}
	})
}

// Tokens are bound to the Node: where it has become another one they are renewed at once,
// and nothing else is looked at.
func TestRefreshTokens(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	synctest.Test(t, func(t *testing.T) {
		api := newObjects()
		m := managerOf(t, api)
		api.set(objects.ConfigMap, "conf", "a", "1")
		other := withVolumes(configMapVolume("v", "conf"))
		other.UID = "other"
		prepare(t, m, other)
		pod := withVolumes(tokenVolume("v"))
		prepare(t, m, pod)
		api.set(objects.ConfigMap, "conf", "a", "2")
		api.mu.Lock()
		api.renewed = ", renewed"
		api.mu.Unlock()
		m.RefreshTokens()
		synctest.Wait()
		if got := shown(t, m, pod, "v")["token"]; got != "token of web for vault, renewed" {
			t.Errorf("%q", got)
		}
		if got := shown(t, m, other, "v")["a"]; got != "1" {
			t.Errorf("a pod without tokens has %q", got)
		}
	})
}

// A token that does not come holds up no other pod, and its own for a bounded time.
func TestTokenThatDoesNotCome(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	synctest.Test(t, func(t *testing.T) {
		api := newObjects()
		api.waiting = make(chan struct{})
		m := managerOf(t, api)
		began := time.Now()
		for i := range maxWriters + 1 {
			waits := withVolumes(tokenVolume("v"))
			waits.UID = types.UID(fmt.Sprintf("waits-%d", i))
			go func() { _ = m.WaitForMount(t.Context(), waits) }()
		}
		synctest.Wait()
		prepare(t, m, withVolumes(fieldsVolume("v", labelsFile)))
		if waited := time.Since(began); waited > 0 {
			t.Errorf("another pod waited for %v", waited)
		}
		waits := withVolumes(tokenVolume("v"))
		waits.UID = "waits-0"
		if err := m.WaitForMount(t.Context(), waits); err == nil || time.Since(began) > 3*tokenTimeout {
			t.Errorf("error %v after %v", err, time.Since(began))
		}
	})
}

func limited(pod *corev1.Pod, cpu string) *corev1.Pod {
	pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	return pod
}

// Files follow labels and resources of a pod whose containers run. What the template
// says of volumes does not count before they are set up for it.
func TestFollow(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	synctest.Test(t, func(t *testing.T) {
		api := newObjects()
		api.set(objects.ConfigMap, "old", "a", "old")
		api.set(objects.ConfigMap, "new", "a", "new")
		m := managerOf(t, api)
		first := limited(withVolumes(fieldsVolume("f", labelsFile, cpuFile), configMapVolume("v", "old"), secretVolume("gone", "none")), "1")
		first.Spec.Volumes = first.Spec.Volumes[:2]
		prepare(t, m, first)
		reads := api.readCount()
		m.Follow(first)
		m.Follow(limited(withVolumes(first.Spec.Volumes...), "1"))
		synctest.Wait()
		if api.readCount() != reads {
			t.Error("files were written for a pod that has not changed")
		}
		next := limited(withVolumes(fieldsVolume("f", labelsFile, cpuFile), configMapVolume("v", "new")), "2")
		next.Labels = map[string]string{"app": "web"}
		m.Follow(next)
		synctest.Wait()
		if got := shown(t, m, first, "f"); got["labels"] != `app="web"` || got["cpu"] != "2" {
			t.Errorf("the fields are %v", got)
		}
		refresh(m, configMapRef("old"), configMapRef("new"))
		if got := shown(t, m, first, "v")["a"]; got != "old" {
			t.Errorf("the containers that run see %q", got)
		}
		prepare(t, m, next)
		if got := shown(t, m, first, "v")["a"]; got != "new" {
			t.Errorf("the containers that start see %q", got)
		}
	})
}

// A new process brings files up to date without a start: those that were set up for what
// the pod says now.
func TestFollowAfterARestart(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	synctest.Test(t, func(t *testing.T) {
		api := newObjects()
		api.set(objects.ConfigMap, "conf", "a", "1")
		api.set(objects.ConfigMap, "other", "a", "other")
		before := managerOf(t, api)
		was := withVolumes(configMapVolume("same", "conf"), configMapVolume("changed", "conf"))
		prepare(t, before, was)
		m := newManager(t, func(c *Config) { c.RootDir, c.Objects = before.config.RootDir, api })
		now := withVolumes(configMapVolume("same", "conf"), configMapVolume("changed", "other"), configMapVolume("new", "other"))
		api.set(objects.ConfigMap, "conf", "a", "2")
		m.Follow(now)
		synctest.Wait()
		for name, want := range map[string]string{"same": "2", "changed": "1", "new": ""} {
			if got := shown(t, m, now, name)["a"]; got != want {
				t.Errorf("%s has %q, want %q", name, got, want)
			}
		}
		api.set(objects.ConfigMap, "conf", "a", "3")
		refresh(m, configMapRef("conf"))
		if got := shown(t, m, now, "same")["a"]; got != "3" {
			t.Errorf("the volume has %q after a change", got)
		}
		mounttest.Must(t, m.Unmount(t.Context(), now.UID))
		if len(m.users) > 0 || len(m.pods) > 0 {
			t.Errorf("%d references and %d pods are left", len(m.users), len(m.pods))
		}
	})
}

// A refresh sets nothing up: not what was torn down, nor what was never there.
func TestRefreshMountsNothing(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	synctest.Test(t, func(t *testing.T) {
		api := newObjects()
		api.set(objects.ConfigMap, "conf", "a", "1")
		m := managerOf(t, api)
		pod := withVolumes(configMapVolume("v", "conf"))
		m.Follow(pod)
		refresh(m, configMapRef("conf"))
		if exists(filepath.Join(m.podDir(pod.UID), volumesDir)) {
			t.Error("a volume was made")
		}
		prepare(t, m, pod)
		dir, _ := m.Path(pod, "v")
		mounttest.Must(t, m.Unmount(t.Context(), pod.UID))
		refresh(m, configMapRef("conf"))
		time.Sleep(time.Hour)
		if _, err := os.Lstat(dir); err == nil {
			t.Error("the volume of a pod that ended is back")
		}
		if len(m.users) > 0 || len(m.pods) > 0 {
			t.Errorf("%d references and %d pods are left", len(m.users), len(m.pods))
		}
	})
}
