// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/hostfs/mounttest"
)

// Containers that run do not get tokens of another service account, nor after a restart of
// the process: those that start do.
func TestAccountOfTokensThatAreShown(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	synctest.Test(t, func(t *testing.T) {
		api := newObjects()
		before := managerOf(t, api)
		m := newManager(t, func(c *Config) { c.RootDir, c.Objects = before.config.RootDir, api })
		as := func(account string) *corev1.Pod {
			pod := withVolumes(tokenVolume("v"))
			pod.Spec.ServiceAccountName = account
			return pod
		}
		check := func(step, want string) {
			t.Helper()
			synctest.Wait()
			if got := shown(t, m, as(""), "v")["token"]; got != want {
				t.Errorf("%s: %q, want %q", step, got, want)
			}
		}
		prepare(t, before, as("a"))
		m.Follow(as("b"))
		check("what runs", "token of web as a for vault")
		prepare(t, m, as("b"))
		check("what starts", "token of web as b for vault")
	})
}

// A container starts with a token that is asked for to start with, also when it starts again: the
// account may have been made again meanwhile. What runs gets those that are at hand.
func TestTokensToStartWith(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	synctest.Test(t, func(t *testing.T) {
		api := newObjects()
		m := managerOf(t, api)
		pod := withVolumes(tokenVolume("v"))
		for i, step := range []func(){
			func() { prepare(t, m, pod) }, func() { m.RefreshPod(pod.UID) }, func() { prepare(t, m, pod) },
		} {
			step()
			synctest.Wait()
			api.mu.Lock()
			if want := i/2 + 1; api.starts != want {
				t.Errorf("step %d: %d tokens to start with, want %d", i, api.starts, want)
			}
			api.mu.Unlock()
		}
	})
}

// A token that was renewed in the background is shown at once, in the pod that it is for.
func TestRefreshPod(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	synctest.Test(t, func(t *testing.T) {
		api := newObjects()
		m := managerOf(t, api)
		pod, other := withVolumes(tokenVolume("v")), withVolumes(tokenVolume("v"))
		other.UID = "other"
		prepare(t, m, pod)
		prepare(t, m, other)
		api.mu.Lock()
		api.renewed = ", renewed"
		api.mu.Unlock()
		m.RefreshPod(pod.UID)
		m.RefreshPod("none")
		synctest.Wait()
		if got, left := shown(t, m, pod, "v")["token"], shown(t, m, other, "v")["token"]; got != "token of web for vault, renewed" || left != "token of web for vault" {
			t.Errorf("%q, and of the other pod %q", got, left)
		}
	})
}
