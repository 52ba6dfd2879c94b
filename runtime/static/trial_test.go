// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package static

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

var errNoImage = errors.New("container c: image typo:1: ErrImagePull: not found")

// waiting is why the change of the workload web waits, as its status says; "" if it does not.
func (s *station) waiting() (reason, message string) {
	s.t.Helper()
	nw := s.Live(types.NamespacedName{Namespace: "default", Name: "web"})
	c := meta.FindStatusCondition(nw.Status.Conditions, v1alpha1.ConditionUpdateWaiting)
	if c == nil {
		return "", ""
	}
	if c.Status != metav1.ConditionTrue || c.LastTransitionTime.IsZero() {
		s.t.Errorf("the condition is %v", c)
	}
	return c.Reason, strings.ReplaceAll(c.Message, s.dir+"/", "")
}

func (s *station) publish(phase corev1.PodPhase, summary string) {
	s.t.Helper()
	if err := s.Publish(s.uids()[0], &v1alpha1.NodeWorkloadStatus{Phase: phase, Summary: summary}); err != nil {
		s.t.Fatal(err)
	}
}

// A change that the node cannot run ends nothing, and the status of what runs says why it waits, until the file says
// something else.
func TestAChangeThatTheNodeCannotRunEndsNothing(t *testing.T) {
	const refused = "a.yaml is not accepted, and what runs from it is kept: container c: image typo:1: ErrImagePull: not found"
	s := newStation(t)
	s.unfit = map[string]error{"typo:1": errNoImage}
	s.write("a.yaml", nodeWorkload("web", "a:1"))
	s.expect("web a:1: run")
	s.publish(corev1.PodRunning, "Running")
	s.write("a.yaml", nodeWorkload("web", "typo:1"))
	s.expect()
	s.expectRefused(refused)
	if reason, message := s.waiting(); reason != v1alpha1.ReasonFileRefused || message != refused {
		t.Errorf("UpdateWaiting: %s: %s", reason, message)
	}
	if got := s.shown; len(got) == 0 || !strings.HasSuffix(got[len(got)-1], "Running, waiting: FileRefused") {
		t.Errorf("the mirror was shown %q", got)
	}
	s.publish(corev1.PodRunning, "Running, 1 restart")
	if got := s.shown[len(s.shown)-1]; got != "Running, 1 restart, waiting: FileRefused" {
		t.Errorf("after the next status of the worker, the mirror was shown %q", got)
	}
	if reason, _ := s.waiting(); reason != v1alpha1.ReasonFileRefused {
		t.Error("the next status of the worker does not say that the change waits")
	}
	s.restart(s.dir)
	s.expect("web a:1: run") // handed over
	if reason, _ := s.waiting(); reason != v1alpha1.ReasonFileRefused {
		t.Error("the next process does not say that the change waits")
	}
	s.write("a.yaml", nodeWorkload("web", "a:1"))
	s.expect()
	if reason, message := s.waiting(); reason != "" {
		t.Errorf("as it was before, UpdateWaiting: %s: %s", reason, message)
	}
	s.write("a.yaml", nodeWorkload("web", "b:1"))
	s.expect("web a:1: end by change of the file a.yaml", "web b:1: run")
}

// Of two files that ask at the same moment for what the node has once, one ends what runs from it and gets it, and
// the other keeps what runs.
func TestTwoChangesForOneThing(t *testing.T) {
	s := newStation(t)
	s.once = "port:1"
	s.write("a.yaml", nodeWorkload("a", "old:1"))
	s.write("b.yaml", nodeWorkload("b", "old:1"))
	s.expect("a old:1: run", "b old:1: run")
	for _, uid := range s.uids() {
		if err := s.Publish(uid, &v1alpha1.NodeWorkloadStatus{Phase: corev1.PodRunning}); err != nil {
			t.Fatal(err)
		}
	}
	s.write("a.yaml", nodeWorkload("a", "port:1"))
	s.write("b.yaml", nodeWorkload("b", "port:1"))
	s.look(t.Context(), s.now)
	s.endTries()
	s.expect("a old:1: end by change of the file a.yaml", "a port:1: run")
	s.endTries() // b.yaml is tried once more
	s.expectRefused("b.yaml is not accepted, and what runs from it is kept: workload ")
	s.remove("b.yaml")
	s.expect("b old:1: end by removal of the file b.yaml")
}

// A file that cannot be read as a workload says so in the status of what runs from it, too.
func TestTheStatusSaysWhyAFileIsNotAccepted(t *testing.T) {
	s := newStation(t)
	s.write("a.yaml", nodeWorkload("web", "a:1"))
	s.expect("web a:1: run")
	s.write("a.yaml", nodeWorkload("web", "a:1")+"  typo: 1\n")
	s.expect()
	reason, message := s.waiting()
	if reason != v1alpha1.ReasonFileRefused || !strings.Contains(message, `unknown field "spec.typo"`) {
		t.Errorf("UpdateWaiting: %s: %s", reason, message)
	}
	s.remove("a.yaml")
	s.expect("web a:1: end by removal of the file a.yaml")
}

// What does not run has nothing to lose: its change is its worker's at once.
func TestAChangeOfWhatDoesNotRunIsNotTried(t *testing.T) {
	for _, phase := range []corev1.PodPhase{corev1.PodPending, corev1.PodSucceeded, corev1.PodFailed} {
		t.Run(string(phase), func(t *testing.T) {
			s := newStation(t)
			s.unfit = map[string]error{"typo:1": errNoImage}
			s.write("a.yaml", nodeWorkload("web", "a:1"))
			s.expect("web a:1: run")
			s.publish(phase, "")
			s.write("a.yaml", nodeWorkload("web", "typo:1"))
			s.expect("web a:1: end by change of the file a.yaml", "web typo:1: run")
		})
	}
}

// What waits for one container may run another, and what has run runs again.
func TestAChangeOfWhatMayRunIsTried(t *testing.T) {
	running := corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	for name, st := range map[string]v1alpha1.NodeWorkloadStatus{
		"one container of two runs":    {Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{}, running}},
		"an init container runs":       {Phase: corev1.PodPending, InitContainerStatuses: []corev1.ContainerStatus{running}},
		"between two restarts":         {Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{ContainerID: "containerd://1"}}},
		"of unknown phase":             {Phase: corev1.PodUnknown},
		"before its first status":      {},
		"after the node has restarted": {Phase: corev1.PodFailed, Reason: v1alpha1.ReasonTerminated},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStation(t)
			s.unfit = map[string]error{"typo:1": errNoImage}
			s.write("a.yaml", nodeWorkload("web", "a:1"))
			s.expect("web a:1: run")
			s.write("a.yaml", nodeWorkload("web", "typo:1"))
			if err := s.Publish(s.uids()[0], &st); err != nil {
				t.Fatal(err)
			}
			s.look(t.Context(), s.now)
			s.endTries()
			s.lookTwice()
			if slices.Contains(s.updates, "web typo:1: run") {
				t.Errorf("handed to the workers: %q", s.updates)
			}
		})
	}
}

// What a shutdown of the node has ended runs again, though its file is not accepted meanwhile.
func TestAfterAShutdownABadFileKeepsWhatRan(t *testing.T) {
	for name, content := range map[string]string{
		"not accepted":   "typo",
		"cannot run":     nodeWorkload("web", "typo:1"),
		"a taken name":   nodeWorkload("db", "a:2"),
		"as it was":      nodeWorkload("web", "a:1"),
		"a good change":  nodeWorkload("web", "a:2"),
		"a removed file": "",
	} {
		t.Run(name, func(t *testing.T) {
			s := newStation(t)
			s.unfit = map[string]error{"typo:1": errNoImage}
			s.write("b.yaml", nodeWorkload("db", "a:1"))
			s.expect("db a:1: run")
			s.write("a.yaml", nodeWorkload("web", "a:1"))
			s.expect("web a:1: run")
			uid := s.Live(types.NamespacedName{Namespace: "default", Name: "web"}).UID
			s.write("a.yaml", content)
			want := "web a:1: run"
			switch name {
			case "a good change":
				want = "web a:2: run"
			case "a removed file":
				want = ""
				s.remove("a.yaml")
			}
			if err := s.Publish(uid, &v1alpha1.NodeWorkloadStatus{Phase: corev1.PodFailed, Reason: v1alpha1.ReasonTerminated}); err != nil {
				t.Fatal(err)
			}
			s.look(t.Context(), s.now)
			s.endTries()
			s.lookTwice()
			if !slices.ContainsFunc(s.updates, func(u string) bool { return strings.HasPrefix(u, "web a:1: end by ") }) {
				t.Fatalf("handed to the workers: %q", s.updates)
			}
			begun := slices.DeleteFunc(s.updates, func(u string) bool { return !strings.HasSuffix(u, ": run") })
			s.keepNow()
			if err := s.Release(uid); err != nil {
				t.Fatal(err)
			}
			s.updates = nil
			s.keepNow()
			s.look(t.Context(), s.now)
			if got := strings.Join(append(begun, s.updates...), "; "); got != want {
				t.Errorf("runs %q, want %q", got, want)
			}
		})
	}
}

// A file of another name with a change of the same workload is a change of its file.
func TestAChangeInAFileOfAnotherNameIsTried(t *testing.T) {
	s := newStation(t)
	s.unfit = map[string]error{"typo:1": errNoImage}
	s.write("web-v1.yaml", nodeWorkload("web", "a:1"))
	s.expect("web a:1: run")
	s.remove("web-v1.yaml")
	s.write("web-v2.yaml", nodeWorkload("web", "typo:1"))
	s.expect()
	if reason, _ := s.waiting(); reason != v1alpha1.ReasonFileRefused {
		t.Errorf("UpdateWaiting: %q", reason)
	}
	s.write("web-v2.yaml", nodeWorkload("web", "a:2"))
	s.expect("web a:1: end by removal of the file web-v1.yaml", "web a:2: run")
}

// A file that is touched while a change is tried does not have the try begin anew.
func TestATouchedFileDoesNotEndItsTry(t *testing.T) {
	s := newStation(t)
	s.hangs = "slow:1"
	s.write("a.yaml", nodeWorkload("web", "a:1"))
	s.expect("web a:1: run")
	s.write("a.yaml", nodeWorkload("web", "slow:1"))
	s.look(t.Context(), s.now)
	tries := maps.Clone(s.trials)
	s.touch("a.yaml")
	s.look(t.Context(), s.now)
	if reason, _ := s.waiting(); reason != v1alpha1.ReasonFileOnTrial {
		t.Errorf("UpdateWaiting: %q", reason)
	}
	s.lookTwice()
	if len(tries) != 1 || !maps.Equal(tries, s.trials) {
		t.Error("the try was given up")
	}
}

// A try that does not end, such as a pull from a registry that hangs, keeps no other file waiting, and ends when its file
// says something else.
func TestATryThatHangsKeepsNoOtherFileWaiting(t *testing.T) {
	s := newStation(t)
	s.hangs = "slow:1"
	s.write("a.yaml", nodeWorkload("web", "a:1"))
	s.write("b.yaml", nodeWorkload("db", "a:1"))
	s.expect("db a:1: run", "web a:1: run")
	s.write("a.yaml", nodeWorkload("web", "slow:1"))
	s.lookTwice()
	if reason, message := s.waiting(); reason != v1alpha1.ReasonFileOnTrial || message != "a.yaml has changed: its images are pulled before what runs ends" {
		t.Errorf("UpdateWaiting: %s: %s", reason, message)
	}
	if len(s.refused) != 0 {
		t.Errorf("refused %q", s.refused)
	}
	s.write("b.yaml", nodeWorkload("db", "a:2"))
	s.look(t.Context(), s.now)
	await(t, s.kicked, "the end of a try")
	s.lookTwice()
	slices.Sort(s.updates)
	if diff := cmp.Diff([]string{"db a:1: end by change of the file b.yaml", "db a:2: run"}, s.updates); diff != "" {
		t.Errorf("handed to the workers (-want +got):\n%s", diff)
	}
	s.updates = nil
	s.write("a.yaml", nodeWorkload("web", "a:2"))
	s.look(t.Context(), s.now)
	if uid := await(t, s.gaveUp, "the end of the try that hangs"); !v1alpha1.IsStatic(uid) {
		t.Errorf("gave up %q", uid)
	}
	s.endTries()
	s.lookTwice()
	slices.Sort(s.updates)
	if diff := cmp.Diff([]string{"web a:1: end by change of the file a.yaml", "web a:2: run"}, s.updates); diff != "" {
		t.Errorf("handed to the workers (-want +got):\n%s", diff)
	}
}

// What fails is tried again, and no more when it has succeeded or is given up.
func TestAChangeIsTriedAgain(t *testing.T) {
	const seconds = time.Second
	for name, tc := range map[string]struct {
		succeedsAt int
		want       []time.Duration
	}{
		"until it succeeds":    {3, []time.Duration{0, 10 * seconds, 20 * seconds}},
		"until it is given up": {0, []time.Duration{0, 10 * seconds, 20 * seconds, 30 * seconds}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun, gaveUp := time.Now(), 0
				s := &Source{kicked: make(chan struct{}, 1), cfg: Config{
					Log: logr.Discard(), GaveUp: func(types.UID) { gaveUp++ }, Has: func(types.UID) bool { return false },
				}}
				var tried []time.Duration
				on := &trial{err: errOnTrial, try: func(context.Context) error {
					tried = append(tried, time.Since(begun))
					if len(tried) == tc.succeedsAt {
						return nil
					}
					return errNoImage
				}}
				ctx, cancel := context.WithTimeout(t.Context(), 35*seconds)
				defer cancel()
				s.try(ctx, on)
				if diff := cmp.Diff(tc.want, tried); diff != "" {
					t.Errorf("tried (-want +got):\n%s", diff)
				}
				_, err := on.latest()
				if succeeded := err == nil; succeeded != (tc.succeedsAt > 0) || succeeded == (gaveUp > 0) {
					t.Errorf("ends with %v, given up %d times", err, gaveUp)
				}
			})
		})
	}
}

// A change that cannot be tried, for a panic, waits like one that fails.
func TestATryThatPanicsEndsNothing(t *testing.T) {
	s := newStation(t)
	s.write("a.yaml", nodeWorkload("web", "a:1"))
	s.expect("web a:1: run")
	s.panics = "b:1"
	s.write("a.yaml", nodeWorkload("web", "b:1"))
	s.expect()
	if reason, _ := s.waiting(); reason != v1alpha1.ReasonFileRefused {
		t.Errorf("UpdateWaiting: %q", reason)
	}
}
