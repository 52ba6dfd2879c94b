// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package static

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// touch has a file be written just now.
func (s *station) touch(name string) {
	s.t.Helper()
	if err := os.Chtimes(filepath.Join(s.dir, name), s.now, s.now); err != nil {
		s.t.Fatal(err)
	}
}

// lookWhileWritten looks at the directory while one of its files is written all the time, as a log is.
func (s *station) lookWhileWritten(name string, while time.Duration) {
	s.t.Helper()
	for end := s.now.Add(while); s.now.Before(end); s.now = s.now.Add(settled / 2) {
		s.touch(name)
		s.look(s.t.Context(), s.now)
	}
}

// A file that never rests is waited for only by what runs from it.
func TestAFileThatIsWrittenAllTheTimeKeepsNoOtherWorkloadFromEnding(t *testing.T) {
	tests := map[string]struct {
		do   func(*station)
		want string
	}{
		"a file is removed": {func(s *station) { s.remove("a.yaml") }, "a a:1: end by removal of the file a.yaml"},
		"a file is changed": {func(s *station) {
			s.write("a.yaml", nodeWorkload("a", "a:2"))
			at := s.now.Add(-2 * settled)
			if err := os.Chtimes(filepath.Join(s.dir, "a.yaml"), at, at); err != nil {
				s.t.Fatal(err)
			}
		}, "a a:1: end by change of the file a.yaml"},
		"a shutdown ended it": {func(s *station) {
			for _, nw := range s.List() {
				if nw.Name != "a" {
					continue
				}
				st := &v1alpha1.NodeWorkloadStatus{Phase: corev1.PodFailed, Reason: v1alpha1.ReasonTerminated}
				if err := s.Publish(nw.UID, st); err != nil {
					s.t.Fatal(err)
				}
			}
		}, "a a:1: end by shim (it runs again after a shutdown of the node)"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := newStation(t)
			s.write("a.yaml", nodeWorkload("a", "a:1"))
			s.write("b.yaml", nodeWorkload("b", "b:1"))
			s.expect("a a:1: run", "b b:1: run")
			for name, content := range map[string]string{"copy.log": "x", "b.yaml": nodeWorkload("b", "b:1")} {
				s.write(name, content)
			}
			tc.do(s)
			for range 24 {
				s.touch("copy.log")
				s.lookWhileWritten("b.yaml", settled/2)
			}
			if !slices.Contains(s.updates, tc.want) {
				t.Errorf("after 12 s the workers were handed %q, want %q", s.updates, tc.want)
			}
			if i := slices.IndexFunc(s.updates, func(u string) bool { return strings.HasPrefix(u, "b ") }); i >= 0 {
				t.Errorf("%s, although its file is only being written", s.updates[i])
			}
		})
	}
}

// A copy that takes a while is the new home of a workload whose file is removed meanwhile.
func TestACopyThatIsBeingWrittenEndsNothing(t *testing.T) {
	s := newStation(t)
	s.write("a.yaml", nodeWorkload("web", "a:1"))
	s.expect("web a:1: run")
	s.write("b.yaml", "apiVersion: ")
	s.touch("b.yaml")
	s.remove("a.yaml")
	s.lookWhileWritten("b.yaml", 9*time.Second)
	s.write("b.yaml", nodeWorkload("web", "a:1"))
	s.touch("b.yaml")
	s.expect()
}

// A file that is written for longer than a copy takes delays nothing any more.
func TestAFileThatHasBeenWrittenForLongDelaysNoEnd(t *testing.T) {
	s := newStation(t)
	s.write("a.yaml", nodeWorkload("web", "a:1"))
	s.expect("web a:1: run")
	s.write("copy.log", "x")
	s.lookWhileWritten("copy.log", 11*time.Second)
	s.remove("a.yaml")
	s.lookWhileWritten("copy.log", 2*time.Second)
	if want := "web a:1: end by removal of the file a.yaml"; !slices.Contains(s.updates, want) {
		t.Errorf("after 2 s the workers were handed %q, want %q", s.updates, want)
	}
}

// What never settles is reported, once.
func TestAFileThatNeverSettlesIsReported(t *testing.T) {
	s := newStation(t)
	s.write("copy.log", "x")
	s.lookWhileWritten("copy.log", 59*time.Second)
	if len(s.refused) != 0 {
		t.Errorf("refused %q", s.refused)
	}
	s.lookWhileWritten("copy.log", time.Minute)
	s.touch("copy.log")
	s.expectRefused("copy.log is not accepted, and what runs from it is kept: it keeps being written")
}
