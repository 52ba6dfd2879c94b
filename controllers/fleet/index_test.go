// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/managertest"
)

// at is a NodeWorkload at a resourceVersion.
func at(node string, owner types.UID, version string) *v1alpha1.NodeWorkload {
	nw := managertest.NodeWorkload(node, owner)
	nw.Namespace, nw.ResourceVersion, nw.Labels = "default", version, map[string]string{v1alpha1.LabelWorkload: "web"}
	return nw
}

func listAt(version string, items ...*v1alpha1.NodeWorkload) *v1alpha1.NodeWorkloadList {
	list := &v1alpha1.NodeWorkloadList{}
	list.ResourceVersion = version
	for _, nw := range items {
		list.Items = append(list.Items, *nw)
	}
	return list
}

// What was written is seen when the watch has come to it, by an event, a bookmark or a
// list; an etcd that was restored from a backup goes back.
func TestSeen(t *testing.T) {
	x := newIndex()
	expect := func(what, version string, want bool) {
		t.Helper()
		if got := x.Seen(version); got != want {
			t.Errorf("%s: seen %s: %v, want %v", what, version, got, want)
		}
	}
	expect("nothing was read", "1", false)
	expect("nothing was written", "", true)
	x.Reset(listAt("90", at("n1", "mw", "80")))
	expect("listed", "90", true)
	expect("listed", "100", false)
	x.Observe(at("n1", "mw", "100"))
	expect("an event, of another length", "99", true)
	expect("an event", "101", false)
	if err := (feed{x}).Bookmark("110"); err != nil {
		t.Fatal(err)
	}
	expect("a bookmark", "110", true)
	x.Gone(at("n1", "mw", "120"))
	expect("a deletion", "120", true)
	x.Reset(listAt("50"))
	expect("etcd restored", "110", false)
	expect("etcd restored", "50", true)
	expect("not a number", "x", true)
}

// Changes are told in order, and what is the same is not.
func TestChangesAreTold(t *testing.T) {
	x := newIndex()
	x.Observe(at("n1", "mw", "1"))
	var told []string
	x.Listen(func(c Change) {
		what := "changed"
		switch {
		case c.Old == nil:
			what = "new"
		case c.New == nil:
			what = "gone"
		case c.Unchanged():
			what = "same"
		case c.StatusOnly():
			what = "status"
		}
		told = append(told, what)
	})
	nw := at("n1", "mw", "2")
	nw.Status.Restarts = 7
	x.Observe(nw)
	nw = at("n1", "mw", "3")
	nw.Status.Phase = "Running"
	x.Observe(nw)
	nw = at("n1", "mw", "4")
	nw.Status.Phase, nw.Generation = "Running", 2
	x.Observe(nw)
	nw = at("n1", "mw", "5")
	nw.Status.Phase, nw.Generation = "Running", 2
	nw.Status.Kills = []v1alpha1.KillRecord{managertest.Kill("a", 1, v1alpha1.KillPhaseStopping, "")}
	x.Observe(nw)
	x.Gone(nw)
	if diff := cmp.Diff([]string{"new", "same", "status", "changed", "status", "gone"}, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

// Whatever comes and goes, all ways to a Share lead to the same ones.
func TestIndexAgreesWithItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := newIndex()
		there := map[string]types.UID{} // owners by node
		for range rapid.IntRange(0, 30).Draw(t, "changes") {
			node := rapid.SampledFrom([]string{"n1", "n2", "n3"}).Draw(t, "node")
			owner := rapid.SampledFrom([]types.UID{"", "a", "b"}).Draw(t, "owner")
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				x.Gone(at(node, there[node], "1"))
				delete(there, node)
			case 1:
				x.Reset(listAt("1", at(node, owner, "1")))
				there = map[string]types.UID{node: owner}
			default:
				x.Observe(at(node, owner, "1"))
				there[node] = owner
			}
			for _, node := range []string{"n1", "n2", "n3"} {
				if _, ok := there[node]; len(x.OnNode(node)) != map[bool]int{true: 1}[ok] {
					t.Fatalf("%d on %s", len(x.OnNode(node)), node)
				}
			}
			want := map[types.UID][]string{}
			for node, owner := range there {
				want[owner] = append(want[owner], node)
			}
			for _, owner := range []types.UID{"", "a", "b"} {
				list := x.OfWorkload(owner)
				if owner == "" {
					list = x.Orphans("default", "web")
				} else if gone := x.kills.AllGone(owner); gone != (len(want[owner]) == 0) {
					t.Fatalf("%q: all gone: %v", owner, gone)
				}
				var got []string
				for _, s := range list {
					got = append(got, s.Node)
					if x.Get(s.Key()) != s || len(x.OnNode(s.Node)) != 1 {
						t.Fatalf("%s is not found by its name or its node", s.Name)
					}
				}
				slices.Sort(got)
				slices.Sort(want[owner])
				if diff := cmp.Diff(want[owner], got); diff != "" {
					t.Fatalf("of %q (-want +got):\n%s", owner, diff)
				}
			}
		}
	})
}
