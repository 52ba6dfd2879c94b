// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/objects"
	"github.com/managedworkload/managedworkload/runtime/hostfs/mounttest"
)

// said is what a manager has said about pods.
type said struct {
	mu       sync.Mutex
	warnings []string
	changes  int
}

func (s *said) warn(_ *corev1.Pod, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.warnings = append(s.warnings, message)
}

func (s *said) changed(types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes++
}

// take returns the warnings and whether conditions have changed since the last call.
func (s *said) take() ([]string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	warnings, changed := s.warnings, s.changes > 0
	s.warnings, s.changes = nil, 0
	return warnings, changed
}

// A volume whose files are not brought up to date says so once by an event in the kubelet's words,
// and by a condition as long as it is so. What has not been received for a moment is no news.
func TestOutdatedFilesAreSaid(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	synctest.Test(t, func(t *testing.T) {
		api, s := newObjects(), &said{}
		api.set(objects.ConfigMap, "mix", "k", "1", "l", "1")
		m := newManager(t, func(c *Config) { c.Objects, c.Warn, c.Changed = api, s.warn, s.changed })
		pod := withVolumes(mixedVolume("v"))
		expect := func(when, condition string, events ...string) {
			t.Helper()
			got := ""
			for _, c := range m.Conditions(pod.UID) {
				got += string(c.Type) + "=" + string(c.Status) + " " + c.Reason + ": " + c.Message
			}
			if got != condition {
				t.Errorf("%s: condition %q, want %q", when, got, condition)
			}
			if warnings, changed := s.take(); !slices.Equal(warnings, events) || len(events) > 0 && !changed {
				t.Errorf("%s: events %q, want %q; published: %v", when, warnings, events, changed)
			}
		}
		const lost = "configmap references non-existent config key: l"
		const condition = `VolumesOutdated=True FilesNotUpdated: volume "v": ` + lost
		prepare(t, m, pod)
		expect("at first", "")
		api.set(objects.ConfigMap, "mix", "k", "1")
		refresh(m, configMapRef("mix"))
		expect("without the key", condition, `MountVolume.SetUp failed for volume "v" : `+lost)
		time.Sleep(time.Hour)
		synctest.Wait()
		expect("an hour later", condition)
		prepare(t, m, pod)
		synctest.Wait()
		expect("when a container starts again", condition)
		api.set(objects.ConfigMap, "mix", "k", "1", "l", "2")
		refresh(m, configMapRef("mix"))
		if _, changed := s.take(); !changed {
			t.Error("that the files are up to date again was not published")
		}
		expect("with the key again", "")
		api.setAway(true)
		refresh(m, configMapRef("mix"))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		expect("when the manager is away for a moment", "")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		expect("when it stays away", `VolumesOutdated=True FilesNotUpdated: volume "v": `+errAway.Error(), `MountVolume.SetUp failed for volume "v" : `+errAway.Error())
	})
}

// A container that starts again with files from before says so, too: its start has not failed.
func TestOutdatedFilesOfAStartAreSaid(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	synctest.Test(t, func(t *testing.T) {
		api, s := newObjects(), &said{}
		api.set(objects.ConfigMap, "conf", "a", "1")
		m := newManager(t, func(c *Config) { c.Objects, c.Warn, c.Changed = api, s.warn, s.changed })
		pod := withVolumes(configMapVolume("v", "conf"))
		prepare(t, m, pod)
		api.remove(objects.ConfigMap, "conf")
		prepare(t, m, pod)
		synctest.Wait()
		want := []string{`MountVolume.SetUp failed for volume "v" : configmap "conf" not found`}
		if got, _ := s.take(); !slices.Equal(got, want) || len(m.Conditions(pod.UID)) != 1 {
			t.Errorf("events %q, want %q; conditions %v", got, want, m.Conditions(pod.UID))
		}
		if err := m.Unmount(t.Context(), pod.UID); err != nil || m.Conditions(pod.UID) != nil {
			t.Errorf("at the end: %v, conditions %v", err, m.Conditions(pod.UID))
		}
	})
}
