// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/objects"
	"github.com/managedworkload/managedworkload/runtime/hostfs/mounttest"
)

// mixedVolume shows a token and, of the ConfigMap mix, the keys k and l.
func mixedVolume(name string) corev1.Volume {
	volume := tokenVolume(name)
	volume.Projected.Sources = append(volume.Projected.Sources, corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{
		LocalObjectReference: corev1.LocalObjectReference{Name: "mix"}, Items: []corev1.KeyToPath{{Key: "k", Path: "k"}, {Key: "l", Path: "l"}},
	}})
	return volume
}

// renew has tokens end in this from then on.
func (f *fakeObjects) renew(suffix string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.renewed = suffix
}

// A source that cannot be had does not stop the others: a token is renewed although a key of a
// ConfigMap is missing, while containers run and when they start again. The source keeps all
// files that it showed.
func TestOtherSourcesGoOn(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	for name, lose := range map[string]func(*fakeObjects){
		"key":    func(api *fakeObjects) { api.set(objects.ConfigMap, "mix", "k", "2") },
		"object": func(api *fakeObjects) { api.remove(objects.ConfigMap, "mix") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := newObjects()
				api.set(objects.ConfigMap, "mix", "k", "1", "l", "1")
				m := managerOf(t, api)
				pod := withVolumes(mixedVolume("v"))
				prepare(t, m, pod)
				expect := func(when, renewed, k, l string) {
					t.Helper()
					want := map[string]string{"token": "token of web for vault" + renewed, "k": k, "l": l}
					if diff := cmp.Diff(want, shown(t, m, pod, "v")); diff != "" {
						t.Errorf("%s (-want +got):\n%s", when, diff)
					}
				}
				expect("at first", "", "1", "1")
				lose(api)
				api.renew(" again")
				refresh(m, configMapRef("mix"))
				expect("while the containers run", " again", "1", "1")
				api.renew(" at a start")
				prepare(t, m, pod)
				expect("when a container starts again", " at a start", "1", "1")
				api.set(objects.ConfigMap, "mix", "k", "3", "l", "3")
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				expect("once all is there again", " at a start", "3", "3")
			})
		})
	}
}
