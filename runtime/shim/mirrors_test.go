// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/mirror"
	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// objects are those of the API.
type mirrorObjects []v1alpha1.NodeWorkload

func (o mirrorObjects) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return nil
}

func (o mirrorObjects) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*v1alpha1.NodeWorkloadList).Items = o //nolint:forcetypeassert // the mirrors list nothing else
	return nil
}

type fromFiles []*template.Workload

func (f fromFiles) List() []*template.Workload { return f }

func fromFile(uid string) *template.Workload {
	return &template.Workload{
		NodeWorkload: v1alpha1.NodeWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: types.UID(uid)}, Spec: v1alpha1.NodeWorkloadSpec{NodeName: "n"}},
		Template:     &corev1.PodTemplateSpec{},
	}
}

func mirrorOf(nw *template.Workload, uid types.UID) v1alpha1.NodeWorkload {
	m := mirror.Reported(nw).Object("n")
	m.UID = uid
	return *m
}

// The manager is asked for what lacks and for what is too much, and for nothing else.
func TestMirrorsAreAskedFor(t *testing.T) {
	ending := fromFile("static-1")
	ending.DeletionTimestamp = &metav1.Time{}
	other := mirrorOf(fromFile("static-1"), "other")
	other.Spec.NodeName = "m"
	renamed, second := mirrorOf(fromFile("static-1"), "m-1"), mirrorOf(fromFile("static-1"), "m-2")
	renamed.Name, second.Name = "as-another-manager-names-it", "second"
	ordinary := mirrorOf(fromFile("static-1"), "ordinary")
	ordinary.Labels = nil
	tests := map[string]struct {
		files fromFiles
		api   mirrorObjects
		want  string
		shown int
	}{
		"nothing":        {},
		"a new workload": {files: fromFiles{fromFile("static-1")}, want: "{\"create\":[{\"namespace\":\"ns\",\"name\":\"web\",\"uid\":\"static-1\",\"containers\":[]}]}"},
		"its mirror":     {files: fromFiles{fromFile("static-1")}, api: mirrorObjects{mirrorOf(fromFile("static-1"), "m-1")}, shown: 1},
		"its mirror, named by a manager of another version": {files: fromFiles{fromFile("static-1")}, api: mirrorObjects{renamed}, shown: 1},
		"two of one": {
			files: fromFiles{fromFile("static-1")}, api: mirrorObjects{mirrorOf(fromFile("static-1"), "m-1"), second}, shown: 1,
			want: "{\"delete\":[{\"namespace\":\"ns\",\"name\":\"second\",\"uid\":\"m-2\"}]}",
		},
		"one that ends":      {files: fromFiles{ending}, api: mirrorObjects{mirrorOf(ending, "m-1")}, shown: 1},
		"ending without one": {files: fromFiles{ending}},
		"one that is gone": {
			api:  mirrorObjects{mirrorOf(fromFile("static-1"), "m-1"), other, ordinary},
			want: "{\"delete\":[{\"namespace\":\"ns\",\"name\":\"" + mirror.Name("web", "n") + "\",\"uid\":\"m-1\"}]}",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, shown := "", 0
			m := &mirrors{
				static: tc.files, cached: tc.api, synced: func() bool { return true }, node: "n",
				report: func(text string) { got = text }, show: func(*template.Workload) { shown++ },
			}
			for range 2 { // what is there already is not shown again
				if err := m.look(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || shown != tc.shown {
				t.Errorf("shown %d times, want %d; report (-want +got):\n%s", shown, tc.shown, diff)
			}
		})
	}
}

// large returns a workload whose containers have long names of images.
func large(name string, containers int) *template.Workload {
	nw := fromFile("static-" + name)
	nw.Name = name
	for i := range containers {
		nw.Template.Spec.Containers = append(nw.Template.Spec.Containers, corev1.Container{Name: fmt.Sprint(i), Image: strings.Repeat("x", 1000)})
	}
	return nw
}

// A workload that is too large for a mirror keeps no other from its own, and that is said once.
func TestAWorkloadThatIsTooLargeIsSaid(t *testing.T) {
	var got string
	var said []string
	m := &mirrors{
		static: fromFiles{large("a", 70), fromFile("static-b")}, cached: mirrorObjects{}, synced: func() bool { return true }, node: "n",
		report: func(text string) { got = text }, refused: func(message string) { said = append(said, message) },
	}
	for range 2 {
		if err := m.look(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if report, err := mirror.Decode(got); err != nil || len(report.Create) != 1 || report.Create[0].Name != "web" {
		t.Errorf("report %q (%v)", got, err)
	}
	if len(said) != 1 || !strings.HasPrefix(said[0], "Static workload ns/a runs and is not shown in the API: ") {
		t.Errorf("said %q", said)
	}
}

// Workloads that get no mirror, as their namespace has no label for it, do not keep the others from being asked for.
func TestEachWorkloadIsAskedForInTurn(t *testing.T) {
	asked := map[string]bool{}
	files, names := fromFiles{}, []string{"a", "b", "c", "d", "e", "f", "g"}
	for _, name := range names {
		files = append(files, large(name, 20))
	}
	reports := map[string]bool{}
	m := &mirrors{static: files, cached: mirrorObjects{}, synced: func() bool { return true }, node: "n", report: func(text string) {
		report, err := mirror.Decode(text)
		if err != nil {
			t.Fatal(err)
		}
		reports[text] = true
		for _, w := range report.Create {
			asked[w.Name] = true
		}
	}}
	for range 60 { // two minutes
		if err := m.look(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(asked) != len(names) {
		t.Errorf("asked for the mirrors of %v only", slices.Sorted(maps.Keys(asked)))
	}
	if len(reports) > 4 { // each is a write of the Lease
		t.Errorf("%d reports in two minutes", len(reports))
	}
}

// Of two mirrors of a workload the same one stays, in whichever order the cache lists them.
func TestTheSameMirrorStays(t *testing.T) {
	at := func(uid types.UID, name string, second int64) v1alpha1.NodeWorkload {
		nw := mirrorOf(fromFile("static-1"), uid)
		nw.CreationTimestamp = metav1.Unix(second, 0)
		if name != "" {
			nw.Name = name
		}
		return nw
	}
	for name, tc := range map[string]struct{ stays, goes v1alpha1.NodeWorkload }{
		"that of this version's name": {at("m-2", "", 2), at("m-1", "other", 1)},
		"the older":                   {at("m-2", "b", 1), at("m-1", "a", 2)},
		"that of the first UID":       {at("m-1", "b", 1), at("m-2", "a", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			m := &mirrors{node: "n"}
			for _, items := range []mirrorObjects{{tc.stays, tc.goes}, {tc.goes, tc.stays}} {
				there, report := m.compare(fromFiles{fromFile("static-1")}, items)
				if there["static-1"].UID != tc.stays.UID || len(report.Delete) != 1 || report.Delete[0].UID != tc.goes.UID {
					t.Errorf("%v stays, %v goes", there, report.Delete)
				}
			}
		})
	}
}
