// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package userns

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// newRoot has a directory for each pod.
func newRoot(t *testing.T, pods ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, uid := range pods {
		if err := os.Mkdir(filepath.Join(root, uid), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func open(t *testing.T, root string) *Ranges {
	t.Helper()
	r, err := New(root)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func rangeOf(t *testing.T, r *Ranges, uid types.UID, want uint32) {
	t.Helper()
	got, err := r.Of(uid)
	if err != nil {
		t.Fatal(err)
	}
	if got != (Range{First: want, Length: 65536}) {
		t.Errorf("pod %s has %+v, want the range from %d", uid, got, want)
	}
}

func writeRecord(t *testing.T, root, uid, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(root, uid, "userns"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// The first range of the node is no pod's, and a pod keeps its own until it has ended.
func TestPodsHaveRangesOfTheirOwn(t *testing.T) {
	root := newRoot(t, "a", "b", "c")
	r := open(t, root)
	rangeOf(t, r, "a", 65536)
	rangeOf(t, r, "b", 131072)
	rangeOf(t, r, "a", 65536)
	for range 2 { // the second time there is nothing
		if err := r.Release("a"); err != nil {
			t.Fatal(err)
		}
	}
	rangeOf(t, r, "c", 65536)
}

// A restart finds what is used, in the kubelet's format.
func TestRangesSurviveARestart(t *testing.T) {
	root := newRoot(t, "a", "b", "c", "new")
	writeRecord(t, root, "b", `{"uidMappings":[{"hostId":65536,"containerId":0,"length":65536}],"gidMappings":[{"hostId":65536,"containerId":0,"length":65536}]}`)
	rangeOf(t, open(t, root), "c", 131072)
	r := open(t, root)
	rangeOf(t, r, "new", 196608)
	rangeOf(t, r, "c", 131072)
	rangeOf(t, r, "b", 65536)
}

// A pod whose range is not known may have any: until it is gone, no other gets one.
func TestUnusableRecords(t *testing.T) {
	one := `{"uidMappings":[%[1]s],"gidMappings":[%[1]s]}`
	for name, tc := range map[string]struct{ record, want string }{
		"cut off":            {`{"uidMap`, "invalid user namespace mappings file"},
		"empty":              {``, "invalid user namespace mappings file"},
		"no mapping":         {`{}`, "GID and UID mapping should be identical"},
		"different mappings": {`{"uidMappings":[{"hostId":65536,"length":65536}],"gidMappings":[{"hostId":131072,"length":65536}]}`, "GID and UID mapping should be identical"},
		"root is not mapped": {fmt.Sprintf(one, `{"hostId":131072,"containerId":1,"length":65536}`), "UID 0 must be mapped"},
		"other length":       {fmt.Sprintf(one, `{"hostId":131072,"length":131072}`), "wrong user namespace length 131072"},
		"other offset":       {fmt.Sprintf(one, `{"hostId":131073,"length":65536}`), "wrong user namespace offset specified 131073"},
		"the node's users":   {fmt.Sprintf(one, `{"hostId":0,"length":65536}`), "id 0 is out of range"},
		"another's range":    {fmt.Sprintf(one, `{"hostId":65536,"length":65536}`), `range picked for pod "bad" already taken`},
	} {
		t.Run(name, func(t *testing.T) {
			root := newRoot(t, "a", "bad", "new")
			rangeOf(t, open(t, root), "a", 65536)
			writeRecord(t, root, "bad", tc.record)
			r := open(t, root)
			for _, uid := range []types.UID{"bad", "new"} {
				if got, err := r.Of(uid); err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("pod %s: range %+v, error %v, want %q", uid, got, err, tc.want)
				}
			}
			rangeOf(t, r, "a", 65536)
			if err := r.Release("bad"); err != nil {
				t.Fatal(err)
			}
			rangeOf(t, r, "new", 131072)
		})
	}
}

// A range that could not be written down is not used.
func TestRecordThatCannotBeWritten(t *testing.T) {
	r := open(t, newRoot(t, "b"))
	if got, err := r.Of("a"); err == nil || !strings.Contains(err.Error(), "create user namespace") {
		t.Errorf("range %+v without a directory of the pod, error %v", got, err)
	}
	rangeOf(t, r, "b", 65536)
}

// A range that may be on the disk although it could not be written down is no other pod's, and is not
// used before it is there.
func TestRecordThatMayBeThere(t *testing.T) {
	root := newRoot(t, "a", "b")
	r := open(t, root)
	inTheWay := filepath.Join(root, "a", "userns")
	if err := os.MkdirAll(filepath.Join(inTheWay, "full"), 0o750); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got, err := r.Of("a"); err == nil {
			t.Errorf("pod a has %+v, which could not be written down", got)
		}
	}
	rangeOf(t, r, "b", 131072)
	if err := os.RemoveAll(inTheWay); err != nil {
		t.Fatal(err)
	}
	rangeOf(t, r, "a", 65536)
	rangeOf(t, open(t, root), "a", 65536)
}

func TestPathsAreNoPods(t *testing.T) {
	root := newRoot(t, "a")
	r := open(t, filepath.Join(root, "a"))
	for _, uid := range []types.UID{"", "..", "../a", "a/b"} {
		if _, err := r.Of(uid); err == nil {
			t.Errorf("%q has a range", uid)
		}
		if err := r.Release(uid); err == nil {
			t.Errorf("%q was released", uid)
		}
	}
}

func TestRangesRunOut(t *testing.T) {
	r := open(t, newRoot(t, "a"))
	for slot := uint64(1); slot < slots; slot++ {
		r.users[uint32(slot)*Length] = "other"
	}
	if _, err := r.Of("a"); err == nil || !strings.Contains(err.Error(), "could not find an empty slot to allocate a user namespace") {
		t.Errorf("error %v", err)
	}
	delete(r.users, 4294901760)
	rangeOf(t, r, "a", 4294901760)
}

// Whatever starts, ends and restarts: no two pods share IDs, and a pod's do not change.
func TestNoTwoPodsShareIDs(t *testing.T) {
	pods := []string{"a", "b", "c", "d"}
	rapid.Check(t, func(rt *rapid.T) {
		root := newRoot(t, pods...)
		r, has := open(t, root), map[string]uint32{}
		for range rapid.IntRange(1, 20).Draw(rt, "steps") {
			uid := rapid.SampledFrom(pods).Draw(rt, "pod")
			switch rapid.SampledFrom([]string{"start", "end", "restart"}).Draw(rt, "step") {
			case "start":
				got, err := r.Of(types.UID(uid))
				if err != nil {
					rt.Fatal(err)
				}
				if before, known := has[uid]; known && before != got.First {
					rt.Fatalf("the range of %s changed from %d to %d", uid, before, got.First)
				}
				has[uid] = got.First
			case "end":
				if err := r.Release(types.UID(uid)); err != nil {
					rt.Fatal(err)
				}
				delete(has, uid)
			case "restart":
				r = open(t, root)
			}
			used := map[uint32]string{}
			for uid, first := range has {
				if other := used[first]; other != "" {
					rt.Fatalf("%s and %s share the range from %d", uid, other, first)
				}
				used[first] = uid
			}
		}
	})
}
