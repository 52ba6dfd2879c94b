// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package simnode

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

var times = Times{Create: 2 * time.Second, Pull: 3 * time.Second, Stop: time.Second, Ready: time.Second}

// seen is what a reader of a status goes by.
type seen struct {
	At       int
	Summary  string
	Ready    bool
	Hash     string
	Observed int64
	Pulling  bool
	Kills    int64
	Restarts int32
	Under    v1alpha1.KillPhase
}

// play steps a share as a node would, with changes at some seconds, until nothing happens
// any more, and returns each status that differs from the one before.
func play(nw *v1alpha1.NodeWorkload, changes map[int]func(*v1alpha1.NodeWorkload, *Share)) []seen {
	var s Share
	var all []seen
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for second := range 30 {
		if change := changes[second]; change != nil {
			change(nw, &s)
		}
		st, _ := s.Step(nw, times, start.Add(time.Duration(second)*time.Second))
		now := seen{
			Summary: st.Summary, Hash: st.TemplateHash, Observed: st.ObservedGeneration, Kills: st.KillCount, Restarts: st.Restarts,
			Ready:   meta.IsStatusConditionTrue(st.Conditions, v1alpha1.ConditionReady),
			Pulling: meta.IsStatusConditionTrue(st.Conditions, v1alpha1.ConditionUpdateWaiting),
		}
		if len(st.Kills) > 0 {
			now.Under = st.Kills[0].Phase
		}
		if len(all) > 0 {
			now.At = all[len(all)-1].At
		}
		if len(all) == 0 || now != all[len(all)-1] {
			now.At = second
			all = append(all, now)
		}
	}
	return all
}

func nodeWorkload(image string) *v1alpha1.NodeWorkload {
	nw := &v1alpha1.NodeWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-n1", UID: "u", Generation: 1, Finalizers: []string{v1alpha1.Finalizer}}}
	nw.Spec = v1alpha1.NodeWorkloadSpec{NodeName: "n1", Template: pinned(image)}
	return nw
}

func pinned(image string) corev1.PodTemplateSpec {
	t := Template(image, 4096)
	template.SetDefaults(&t)
	return t
}

func setImage(image string) func(*v1alpha1.NodeWorkload, *Share) {
	return func(nw *v1alpha1.NodeWorkload, _ *Share) {
		nw.Spec.Template = pinned(image)
		nw.Generation++
	}
}

func TestStep(t *testing.T) {
	hash := func(image string) string {
		p := pinned(image)
		return template.Hash(&p)
	}
	v1, v2 := hash("app:1"), hash("app:2")
	up := []seen{
		{0, "ContainerCreating", false, "", 1, false, 0, 0, ""},
		{2, "Running", false, v1, 1, false, 0, 0, ""},
		{3, "Running", true, v1, 1, false, 0, 0, ""},
	}
	done, stopping := v1alpha1.KillPhaseDone, v1alpha1.KillPhaseStopping
	tests := map[string]struct {
		image   string
		changes map[int]func(*v1alpha1.NodeWorkload, *Share)
		want    []seen
	}{
		"a start": {want: up},
		"a bad image from the start": {image: BadImage, want: []seen{
			{0, "ContainerCreating", false, "", 1, false, 0, 0, ""},
		}},
		"another image": {changes: map[int]func(*v1alpha1.NodeWorkload, *Share){10: setImage("app:2")}, want: append(up[:3:3],
			seen{10, "Running, waiting: Pulling", true, v1, 2, true, 0, 0, ""},
			seen{13, "Running", false, v1, 2, false, 1, 0, stopping},
			seen{14, "Running", false, v2, 2, false, 1, 1, done},
			seen{15, "Running", true, v2, 2, false, 1, 1, done},
		)},
		"a bad image, reverted": {changes: map[int]func(*v1alpha1.NodeWorkload, *Share){10: setImage(BadImage), 20: setImage("app:1")}, want: append(up[:3:3],
			seen{10, "Running, waiting: ImagePullBackOff", true, v1, 2, true, 0, 0, ""},
			seen{20, "Running", true, v1, 3, false, 0, 0, ""},
		)},
		"a bad image, replaced": {changes: map[int]func(*v1alpha1.NodeWorkload, *Share){10: setImage(BadImage), 20: setImage("app:2")}, want: append(up[:3:3],
			seen{10, "Running, waiting: ImagePullBackOff", true, v1, 2, true, 0, 0, ""},
			seen{20, "Running, waiting: Pulling", true, v1, 3, true, 0, 0, ""},
			seen{23, "Running", false, v1, 3, false, 1, 0, stopping},
			seen{24, "Running", false, v2, 3, false, 1, 1, done},
			seen{25, "Running", true, v2, 3, false, 1, 1, done},
		)},
		"a bad image, too late": {changes: map[int]func(*v1alpha1.NodeWorkload, *Share){10: setImage("app:2"), 14: setImage(BadImage)}, want: append(up[:3:3],
			seen{10, "Running, waiting: Pulling", true, v1, 2, true, 0, 0, ""},
			seen{13, "Running", false, v1, 2, false, 1, 0, stopping},
			seen{14, "ContainerCreating", false, v1, 3, false, 1, 1, done},
		)},
		"a failing probe": {changes: map[int]func(*v1alpha1.NodeWorkload, *Share){
			10: func(_ *v1alpha1.NodeWorkload, s *Share) { s.SetFailing(true) },
			12: func(_ *v1alpha1.NodeWorkload, s *Share) { s.SetFailing(false) },
		}, want: append(up[:3:3],
			seen{10, "Running", false, v1, 1, false, 0, 0, ""},
			seen{12, "Running", true, v1, 1, false, 0, 0, ""},
		)},
		"a crash": {changes: map[int]func(*v1alpha1.NodeWorkload, *Share){
			10: func(_ *v1alpha1.NodeWorkload, s *Share) { s.Crash(time.Date(2026, 1, 2, 3, 4, 15, 0, time.UTC)) },
		}, want: append(up[:3:3], seen{10, "Running", true, v1, 1, false, 0, 1, ""})},
		"a deletion": {changes: map[int]func(*v1alpha1.NodeWorkload, *Share){10: func(nw *v1alpha1.NodeWorkload, _ *Share) {
			nw.DeletionTimestamp = &metav1.Time{Time: time.Date(2026, 1, 2, 3, 4, 15, 0, time.UTC)}
		}}, want: append(up[:3:3], seen{10, "Terminating", false, v1, 1, false, 1, 0, done})},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			image := tt.image
			if image == "" {
				image = "app:1"
			}
			if diff := cmp.Diff(tt.want, play(nodeWorkload(image), tt.changes)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A node looks again just when something is due.
func TestWait(t *testing.T) {
	var s Share
	nw := nodeWorkload("app:1")
	now := time.Now()
	for _, want := range []time.Duration{times.Create, times.Ready, 0} {
		_, wait := s.Step(nw, times, now)
		if wait != want {
			t.Errorf("wait %s, want %s", wait, want)
		}
		now = now.Add(wait)
	}
}

func TestTemplateSize(t *testing.T) {
	for _, bytes := range []int{2000, 4096, 8000} {
		template := Template("app:1", bytes)
		if got := size(&template); got < bytes-128 || got > bytes+64 {
			t.Errorf("%d bytes, want %d", got, bytes)
		}
	}
}
