// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/images"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// An image is prepared as a start does it: with the same words and the same back-off.
func TestPrepareImage(t *testing.T) {
	failed := `Failed to pull image "img:1": rpc error: code = Unknown desc = runtime exploded`
	for name, tt := range map[string]struct {
		image  string
		policy corev1.PullPolicy
		there  bool
		fails  bool
		want   plan.Preparation
		events []string
		pulls  int
	}{
		"there":         {"img:1", corev1.PullIfNotPresent, true, false, plan.Preparation{Ref: "img:1"}, nil, 0},
		"there, Never":  {"img:1", corev1.PullNever, true, false, plan.Preparation{Ref: "img:1"}, nil, 0},
		"not there":     {"img:1", corev1.PullIfNotPresent, false, false, plan.Preparation{Ref: "img:1", Pulled: true}, []string{"Pulling", "Pulled"}, 1},
		"there, Always": {"img:1", corev1.PullAlways, true, false, plan.Preparation{Ref: "img:1", Pulled: true}, []string{"Pulling", "Pulled"}, 1},
		"no registry":   {"img:1", corev1.PullIfNotPresent, false, true, failure("ErrImagePull", "rpc error: code = Unknown desc = runtime exploded"), []string{"Pulling", "Failed " + failed}, 1},
		"not there, Never": {"img:1", corev1.PullNever, false, false,
			failure("ErrImageNeverPull", `Container image "img:1" is not present with pull policy of Never`), []string{"ErrImageNeverPull"}, 0},
		"no name": {"A b", corev1.PullIfNotPresent, false, false,
			failure("InvalidImageName", `Failed to apply default image tag "A b": couldn't parse image name "A b": invalid reference format: repository name (library/A b) must be lowercase`),
			[]string{"InspectFailed"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeRuntime()
				f.Images = map[string]bool{"img:1": tt.there}
				if tt.fails {
					f.Fail("PullImage", "img:1", "Unknown")
				}
				pod := testPod(30, nil)
				pod.Spec.Containers[0].Image, pod.Spec.Containers[0].ImagePullPolicy = tt.image, tt.policy
				begun := 0
				got, err := newFakeExecutor(f).PrepareImage(t.Context(), pod, pod.Spec.Containers[0].Name, plan.ImageKeyOf(&pod.Spec.Containers[0]), func() { begun++ })
				if diff := gocmp.Diff(tt.want, got); diff != "" || err != nil {
					t.Errorf("error %v, prepared (-want +got):\n%s", err, diff)
				}
				if pulls := len(f.ops("PullImage")); pulls != tt.pulls || begun != tt.pulls {
					t.Errorf("%d pulls, %d begun, want %d", pulls, begun, tt.pulls)
				}
				var events []string
				for i, e := range f.ops("Event") {
					text := e.Text("reason")
					if i < len(tt.events) && tt.events[i] == text+" "+e.Text("message") {
						text = tt.events[i]
					}
					events = append(events, text)
				}
				if !slices.Equal(events, tt.events) {
					t.Errorf("events %q, want %q", events, tt.events)
				}
			})
		})
	}
}

func failure(reason, message string) plan.Preparation {
	return plan.Preparation{Reason: plan.Reason{Reason: reason, Message: message}}
}

// A start and a preparation hold each other back: the registry is asked as rarely as by
// the kubelet.
func TestPreparationSharesTheBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRuntime()
		f.Fail("PullImage", "img:1", "Unknown")
		e, pod := newFakeExecutor(f), testPod(30, nil)
		prepare := func() string {
			got, err := e.PrepareImage(t.Context(), pod, pod.Spec.Containers[0].Name, plan.ImageKeyOf(&pod.Spec.Containers[0]), func() {})
			if err != nil {
				t.Fatal(err)
			}
			return got.Reason.Reason
		}
		first, second := prepare(), prepare()
		start := e.SyncPod(t.Context(), startApp(pod, f)).Tried["app"].Reason
		if pulls := len(f.ops("PullImage")); first != "ErrImagePull" || second != "ImagePullBackOff" || start != second || pulls != 1 {
			t.Errorf("%s, %s, start %s after %d pulls", first, second, start, pulls)
		}
		time.Sleep(imageBackoffBase + time.Second)
		if again := prepare(); again != "ErrImagePull" {
			t.Errorf("after the back-off: %s", again)
		}
	})
}

// A pull that is given up has not failed: it leaves no event and no back-off.
func TestPreparationIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRuntime()
		e, pod := New(Config{Runtime: &endlessPull{f}, Events: f, Kills: f}), testPod(30, nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := e.PrepareImage(ctx, pod, pod.Spec.Containers[0].Name, plan.ImageKeyOf(&pod.Spec.Containers[0]), func() {})
			done <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		if events := f.ops("Event"); len(events) != 1 || events[0].Text("reason") != "Pulling" {
			t.Errorf("events %v", events)
		}
		if e.images.backoff.IsInBackOffSinceUpdate(string(pod.UID)+"_img:1", time.Now()) {
			t.Error("the next pull is held back")
		}
	})
}

// endlessPull is a runtime whose registry does not answer.
type endlessPull struct{ *fakeRuntime }

func (endlessPull) PullImage(ctx context.Context, _ string, _ *corev1.Pod, _ *images.Login) (string, error) {
	<-ctx.Done()
	return "", ctx.Err()
}

// A start uses what was pulled before the kill, even if the registry has gone away since;
// an image that was removed meanwhile is pulled again.
func TestStartUsesThePulledImage(t *testing.T) {
	for name, tt := range map[string]struct {
		there bool
		want  string
		pulls int
	}{
		"there":             {true, "", 0},
		"removed meanwhile": {false, "ErrImagePull", 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeRuntime()
				f.Fail("PullImage", "", "Unknown")
				f.Images = map[string]bool{"sha256:pulled": tt.there}
				pod := testPod(30, nil)
				pod.Spec.Containers[0].ImagePullPolicy = corev1.PullAlways
				request := startApp(pod, f)
				request.Actions.Images = []plan.ImageNeed{{Container: "app", Image: "img:1", Use: plan.ImagePulled, Ref: "sha256:pulled"}}
				out := newFakeExecutor(f).SyncPod(t.Context(), request)
				if got, pulls := out.Tried["app"].Reason, len(f.ops("PullImage")); got != tt.want || pulls != tt.pulls {
					t.Errorf("reason %q after %d pulls", got, pulls)
				}
				if tt.there && f.ops("Event")[0].Text("reason") != "Created" {
					t.Errorf("events %v", f.ops("Event"))
				}
			})
		})
	}
}

// A workload whose pulls hang leaves room for the pulls of other workloads, and for its own starts.
func TestPullsAheadLeaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &slowPulls{fakeRuntime: newFakeRuntime(), released: make(chan struct{})}
		e, pod := New(Config{Runtime: r, Events: r.fakeRuntime, Kills: r.fakeRuntime, Differences: plan.AllDifferences()}), testPod(30, nil)
		var pulls sync.WaitGroup
		for i := range 2 * parallelPulls {
			c := corev1.Container{Name: "c", Image: fmt.Sprintf("img:%d", i), ImagePullPolicy: corev1.PullAlways}
			pulls.Go(func() { _, _ = e.PrepareImage(t.Context(), pod, c.Name, plan.ImageKeyOf(&c), func() {}) })
		}
		synctest.Wait()
		if got := r.underWay.Load(); got != 1 {
			t.Errorf("%d pulls of one workload at once, want 1", got)
		}
		pulls.Go(func() { e.SyncPod(t.Context(), startApp(pod, r.fakeRuntime)) })
		another := testPod(30, func(pod *corev1.Pod) { pod.UID = "another" })
		pulls.Go(func() {
			_, _ = e.PrepareImage(t.Context(), another, another.Spec.Containers[0].Name, plan.ImageKeyOf(&another.Spec.Containers[0]), func() {})
		})
		synctest.Wait()
		if got := r.underWay.Load(); got != 3 {
			t.Errorf("%d pulls, want those of a start and of another workload too", got)
		}
		close(r.released)
		pulls.Wait()
	})
}
