// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/cri"
	"github.com/managedworkload/managedworkload/runtime/executor"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podcgroup"
	"github.com/managedworkload/managedworkload/runtime/poddir"
	"github.com/managedworkload/managedworkload/runtime/podworker"
)

// garbageRuntime lists pods, and writes down what is done to them.
type garbageRuntime struct {
	executor.Runtime
	pods     []cri.Pod
	statuses map[types.UID]*plan.PodStatus
	// unreadable are the pods whose status cannot be read.
	unreadable map[types.UID]bool
	// hangs is what a call about does not come back before released is closed, and atOnce the
	// largest number of such calls at one moment.
	hangs    string
	released chan struct{}
	mu       sync.Mutex
	hanging  int
	atOnce   int
	asked    []types.UID
	touched  []string
	removing func(id string) // called by removals of containers
}

// hang does not come back where a call is to hang.
func (r *garbageRuntime) hang(ctx context.Context, about string) error {
	if r.hangs != about {
		return nil
	}
	count := func(n int) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.hanging += n
		r.atOnce = max(r.atOnce, r.hanging)
	}
	count(1)
	defer count(-1)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-r.released:
		return errors.New("the runtime does not answer")
	}
}

func (r *garbageRuntime) ListPods(context.Context) ([]cri.Pod, error) { return r.pods, nil }

func (r *garbageRuntime) PodStatus(ctx context.Context, uid types.UID) (*plan.PodStatus, error) {
	r.mu.Lock()
	r.asked = append(r.asked, uid)
	r.mu.Unlock()
	if err := r.hang(ctx, string(uid)); err != nil {
		return nil, err
	}
	if r.unreadable[uid] {
		return nil, errors.New("the runtime does not answer")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	status := *r.statuses[uid]
	status.Containers = slices.Clone(status.Containers)
	return &status, nil
}

func (r *garbageRuntime) ContainerStatus(ctx context.Context, id string) (plan.ContainerStatus, error) {
	if err := r.hang(ctx, "status "+id); err != nil {
		return plan.ContainerStatus{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.statuses {
		for _, c := range s.Containers {
			if c.ID == id {
				return c, nil
			}
		}
	}
	return plan.ContainerStatus{}, nil
}

func (r *garbageRuntime) touch(what, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.touched = append(r.touched, what+" "+id)
	return nil
}

func (r *garbageRuntime) StopContainer(ctx context.Context, id string, _ int64) error {
	if err := r.hang(ctx, "stop "+id); err != nil {
		return err
	}
	r.mu.Lock()
	for _, s := range r.statuses {
		for i := range s.Containers {
			if s.Containers[i].ID == id {
				s.Containers[i].State = plan.ContainerExited
			}
		}
	}
	r.mu.Unlock()
	return r.touch("stop", id)
}

func (r *garbageRuntime) RemoveContainer(ctx context.Context, id string) error {
	if err := r.hang(ctx, "remove "+id); err != nil {
		return err
	}
	if r.removing != nil {
		r.removing(id)
	}
	return r.touch("remove", id)
}

func (r *garbageRuntime) StopSandbox(ctx context.Context, id string) error {
	if err := r.hang(ctx, "stop "+id); err != nil {
		return err
	}
	return r.touch("stop", id)
}

func (r *garbageRuntime) RemoveSandbox(ctx context.Context, id string) error {
	if err := r.hang(ctx, "remove "+id); err != nil {
		return err
	}
	return r.touch("remove", id)
}

// add puts a pod with dead containers, one of unknown state and two dead
// sandboxes on the runtime.
func (r *garbageRuntime) add(pod cri.Pod) {
	status := &plan.PodStatus{}
	for i, state := range []plan.ContainerState{plan.ContainerRunning, plan.ContainerExited, plan.ContainerUnknown, plan.ContainerExited} {
		id := string(pod.UID) + "-c" + string(rune('0'+i))
		pod.Containers = append(pod.Containers, id)
		status.Containers = append(status.Containers, plan.ContainerStatus{
			ID: id, Name: "c", State: state, SandboxID: string(pod.UID) + "-s0", CreatedAt: time.Unix(int64(100-i), 0),
		})
	}
	for i := range 2 {
		id := string(pod.UID) + "-s" + string(rune('0'+i))
		pod.Sandboxes = append(pod.Sandboxes, id)
		status.Sandboxes = append(status.Sandboxes, plan.SandboxStatus{
			ID: id, State: plan.SandboxNotReady, CreatedAt: time.Unix(int64(100-i), 0),
		})
	}
	pod.Dead = 3
	r.pods, r.statuses[pod.UID] = append(r.pods, pod), status
}

// noEvents takes events and records of kills.
type noEvents struct{}

func (noEvents) Event(*corev1.Pod, string, string, string, string) {}
func (noEvents) Kill(types.UID, plan.KillProgress)                 {}

// Garbage is collected of the pods that have a worker, and of no others: not of
// another shim's, not of the kubelet's, not where the worker ends the pod itself.
func TestGarbageIsOurs(t *testing.T) {
	runtime := &garbageRuntime{statuses: map[types.UID]*plan.PodStatus{}}
	keeper := newKeeper(t, 0)
	for _, uid := range []types.UID{"ours", "ending", "taken"} {
		nw := &v1alpha1.NodeWorkload{
			ObjectMeta: metav1.ObjectMeta{UID: uid, Namespace: "ns", Name: string(uid), Generation: 1},
			Spec: v1alpha1.NodeWorkloadSpec{NodeName: "node", Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "c", Image: "image"}},
			}}},
		}
		if uid == "ending" {
			nw.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		}
		keeper.pool.Update(template.Of(nw))
		// "taken" has the UID of a workload, but another shim made it.
		runtime.add(cri.Pod{UID: uid, Namespace: "ns", Name: string(uid), Ours: uid != "taken"})
	}
	runtime.add(cri.Pod{UID: "foreign", Namespace: "kube-system", Name: "dns"})
	runtime.add(cri.Pod{UID: "orphan", Namespace: "ns", Name: "orphan", Ours: true})
	c := &collector{
		runtime: runtime, pool: keeper.pool, orphans: keeper.orphanKeeper,
		executor: executor.New(executor.Config{Runtime: runtime, Events: noEvents{}, Kills: noEvents{}}),
	}
	if err := c.collectContainers(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{"remove ours-c3", "stop ours-c2", "remove ours-c2", "stop ours-s1", "remove ours-s1"}
	if diff := cmp.Diff(want, runtime.touched); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]types.UID{"ours"}, slices.Compact(runtime.asked)); diff != "" {
		t.Errorf("asked about (-want +got)\n%s", diff)
	}
}

// collectorOf makes a collector over a runtime with a worker for each UID.
func collectorOf(t *testing.T, runtime *garbageRuntime, uids ...types.UID) (*collector, keeperFixture) {
	t.Helper()
	keeper := newKeeper(t, 0)
	for _, uid := range uids {
		keeper.pool.Update(template.Of(&v1alpha1.NodeWorkload{
			ObjectMeta: metav1.ObjectMeta{UID: uid, Namespace: "ns", Name: string(uid), Generation: 1},
			Spec: v1alpha1.NodeWorkloadSpec{NodeName: "node", Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "c", Image: "image"}, {Name: "d", Image: "image"}},
			}}},
		}))
	}
	return &collector{
		runtime: runtime, pool: keeper.pool, orphans: keeper.orphanKeeper,
		executor: executor.New(executor.Config{Runtime: runtime, Events: noEvents{}, Kills: noEvents{}}),
	}, keeper
}

// An older dead instance goes also where the template names as many containers as
// there are; one dead instance of each is nothing to ask about.
func TestGarbageIsCountedByName(t *testing.T) {
	dead := func(id, name string, age int64) plan.ContainerStatus {
		return plan.ContainerStatus{ID: id, Name: name, State: plan.ContainerExited, CreatedAt: time.Unix(100-age, 0)}
	}
	runtime := &garbageRuntime{
		pods: []cri.Pod{
			{UID: "two", Ours: true, Containers: []string{"c1", "c0"}, Dead: 2},
			{UID: "one", Ours: true, Containers: []string{"c1", "c0", "d1", "d0"}, Dead: 1},
		},
		statuses: map[types.UID]*plan.PodStatus{
			"two": {Containers: []plan.ContainerStatus{dead("c1", "c", 1), dead("c0", "c", 2)}},
			"one": {},
		},
	}
	c, _ := collectorOf(t, runtime, "one", "two")
	if err := c.collectContainers(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"remove c0"}, runtime.touched); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]types.UID{"two"}, slices.Compact(runtime.asked)); diff != "" {
		t.Errorf("asked about (-want +got)\n%s", diff)
	}
}

// A sandbox in which another client's container may run is not removed under it.
func TestGarbageLeavesSandboxesOfOthers(t *testing.T) {
	sandbox := func(id string, age int64) plan.SandboxStatus {
		return plan.SandboxStatus{ID: id, State: plan.SandboxNotReady, CreatedAt: time.Unix(100-age, 0)}
	}
	runtime := &garbageRuntime{
		pods: []cri.Pod{{UID: "a", Ours: true, Sandboxes: []string{"s2", "s1", "s0"},
			Foreign: []plan.ForeignContainer{{ID: "theirs", Name: "shell", SandboxID: "s1"}}}},
		statuses: map[types.UID]*plan.PodStatus{"a": {Sandboxes: []plan.SandboxStatus{sandbox("s2", 0), sandbox("s1", 1), sandbox("s0", 2)}}},
	}
	c, _ := collectorOf(t, runtime, "a")
	if err := c.collectContainers(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"stop s0", "remove s0"}, runtime.touched); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// A pod that cannot be read keeps its own garbage, and no other pod's.
func TestGarbageOfOthersIsCollectedBesideAnUnreadablePod(t *testing.T) {
	runtime := &garbageRuntime{statuses: map[types.UID]*plan.PodStatus{}, unreadable: map[types.UID]bool{"bad": true}}
	for _, uid := range []types.UID{"a", "bad", "z"} {
		runtime.add(cri.Pod{UID: uid, Namespace: "ns", Name: string(uid), Ours: true})
	}
	c, _ := collectorOf(t, runtime, "a", "bad", "z")
	if err := c.collectContainers(t.Context()); err == nil || !strings.Contains(err.Error(), "observe pod bad") {
		t.Errorf("error %v, want it to name the pod that cannot be read", err)
	}
	for _, id := range []string{"a-c3", "a-s1", "z-c3", "z-s1"} {
		if !slices.Contains(runtime.touched, "remove "+id) {
			t.Errorf("%s was not removed: %q", id, runtime.touched)
		}
	}
	if i := slices.IndexFunc(runtime.touched, func(s string) bool { return strings.Contains(s, "bad-") }); i >= 0 {
		t.Errorf("%q of a pod that cannot be read", runtime.touched[i])
	}
}

// A call of the runtime about one pod that does not come back keeps the garbage of the others
// for two seconds a round at most; the pod itself is not collected a second time beside that.
func TestGarbageOfOthersIsCollectedBesideACallThatHangs(t *testing.T) {
	for _, hangs := range []string{"bad", "status bad-c2", "stop bad-c2", "remove bad-c3", "stop bad-s1", "remove bad-s1"} {
		t.Run(hangs, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				runtime := &garbageRuntime{statuses: map[types.UID]*plan.PodStatus{}, hangs: hangs, released: make(chan struct{})}
				for _, uid := range []types.UID{"a", "bad", "z"} {
					runtime.add(cri.Pod{UID: uid, Namespace: "ns", Name: string(uid), Ours: true})
				}
				c, _ := collectorOf(t, runtime, "a", "bad", "z")
				ctx, stop := context.WithCancel(t.Context())
				var collecting sync.WaitGroup
				collecting.Go(func() { _ = c.run(ctx) })
				wait := garbageInterval + 10*time.Second
				for round := range 3 {
					time.Sleep(wait)
					wait = garbageInterval
					runtime.mu.Lock()
					for _, id := range []string{"a-c3", "a-s1", "z-c3", "z-s1"} {
						if !slices.Contains(runtime.touched, "remove "+id) {
							t.Errorf("round %d: %s was not removed: %q", round, id, runtime.touched)
						}
					}
					runtime.touched = nil
					runtime.mu.Unlock()
				}
				stop()
				close(runtime.released)
				collecting.Wait()
				synctest.Wait()
				if runtime.atOnce != 1 {
					t.Errorf("%d calls at once that hang, want 1", runtime.atOnce)
				}
			})
		})
	}
}

// Whoever needs the disk waits for all that is removed, and what hangs keeps nothing there.
func TestReclaimWaitsForASlowRemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runtime := &garbageRuntime{statuses: map[types.UID]*plan.PodStatus{}}
		for _, uid := range []types.UID{"slow", "z"} {
			runtime.add(cri.Pod{UID: uid, Namespace: "ns", Name: string(uid), Ours: true})
		}
		began, last := time.Now(), time.Duration(0)
		runtime.removing = func(id string) {
			switch id {
			case "slow-c3":
				time.Sleep(time.Minute)
			case "z-c3":
				last = time.Since(began)
			}
		}
		c, _ := collectorOf(t, runtime, "slow", "z")
		if err := c.Reclaim(t.Context()); err != nil {
			t.Fatal(err)
		}
		if last > 10*time.Second || !slices.Contains(runtime.touched, "remove slow-s1") {
			t.Errorf("the others were removed after %s; removed %q", last, runtime.touched)
		}
	})
}

// stuckFiles has pods some of whose files cannot be removed.
type stuckFiles struct {
	pods    []types.UID
	fails   func(ctx context.Context, uid types.UID) error
	removed []types.UID
	// killed are the pods whose processes were killed.
	killed []types.UID
}

func (f *stuckFiles) KillLeftovers(_ context.Context, uid types.UID) ([]podcgroup.Process, error) {
	f.killed = append(f.killed, uid)
	return []podcgroup.Process{{PID: 7, Name: "runc"}}, nil
}

func (f *stuckFiles) Pods(context.Context) (pods []poddir.Identity, err error) {
	for _, uid := range f.pods {
		pods = append(pods, poddir.Identity{UID: uid})
	}
	return pods, nil
}

func (f *stuckFiles) Remove(ctx context.Context, pod poddir.Identity) error {
	if err := f.fails(ctx, pod.UID); err != nil {
		return err
	}
	f.removed = append(f.removed, pod.UID)
	return nil
}

// A leftover that cannot be removed, or not soon, keeps no later one; a log of very
// many errors stays short.
func TestLeftoversAreRemovedEachByItself(t *testing.T) {
	tests := map[string]func(ctx context.Context) error{
		"an error": func(context.Context) error { return errors.New("device or resource busy") },
		"a removal that does not end": func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		},
	}
	for name, fail := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				files := &stuckFiles{fails: func(ctx context.Context, uid types.UID) error {
					if uid == "last" {
						return nil
					}
					return fail(ctx)
				}}
				for i := range 40 {
					files.pods = append(files.pods, types.UID(fmt.Sprint("stuck-", i)))
				}
				files.pods = append(files.pods, "last")
				c, _ := collectorOf(t, &garbageRuntime{})
				c.dirs = files
				err := c.removeLeftovers(t.Context())
				if err == nil || !strings.Contains(err.Error(), "stuck-0") || !strings.Contains(err.Error(), "and 35 more") {
					t.Errorf("error %v", err)
				}
				if !slices.Equal(files.removed, []types.UID{"last"}) {
					t.Errorf("removed %q, want the one behind those that fail", files.removed)
				}
			})
		})
	}
}

// What a runtime has left in the cgroup of a pod that nobody knows is killed when its files could not be
// removed; what the runtime knows by then is not touched.
func TestProcessesOfAnUnknownPodAreKilled(t *testing.T) {
	for name, tc := range map[string]struct {
		between     func(*garbageRuntime)
		wantKilled  []types.UID
		wantRemoved []types.UID
	}{
		"still unknown":          {func(*garbageRuntime) {}, []types.UID{"gone"}, []types.UID{"gone"}},
		"the runtime has it now": {func(r *garbageRuntime) { r.pods = []cri.Pod{{UID: "gone"}} }, nil, nil},
		"the runtime has a container of it that it did not list": {func(r *garbageRuntime) {
			r.statuses["gone"] = &plan.PodStatus{Containers: []plan.ContainerStatus{{State: plan.ContainerRunning}}}
		}, nil, nil},
		"the runtime does not say": {func(r *garbageRuntime) { r.unreadable = map[types.UID]bool{"gone": true} }, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			runtime := &garbageRuntime{statuses: map[types.UID]*plan.PodStatus{"gone": {}}}
			files := &stuckFiles{pods: []types.UID{"gone"}}
			files.fails = func(context.Context, types.UID) error {
				if len(files.killed) == 0 {
					return errors.New("device or resource busy")
				}
				return nil
			}
			c, _ := collectorOf(t, runtime)
			c.dirs = files
			if err := c.removeLeftovers(t.Context()); err == nil || len(files.killed) > 0 { // they may be leaving
				t.Errorf("at first: killed %q, error %v", files.killed, err)
			}
			tc.between(runtime)
			if err := c.removeLeftovers(t.Context()); err != nil && tc.wantKilled != nil {
				t.Error(err)
			}
			if !slices.Equal(files.killed, tc.wantKilled) || !slices.Equal(files.removed, tc.wantRemoved) {
				t.Errorf("killed %q, removed %q; want %q, %q", files.killed, files.removed, tc.wantKilled, tc.wantRemoved)
			}
		})
	}
}

// Directories and logs are removed of pods that are not known, and of no others;
// not before the API's list is complete.
func TestLeftovers(t *testing.T) {
	root := t.TempDir()
	dirs := newPodDirs(t, root, poddir.Config{})
	listed := &v1alpha1.NodeWorkload{
		ObjectMeta: metav1.ObjectMeta{UID: "listed", Namespace: "ns", Name: "listed"}, Spec: v1alpha1.NodeWorkloadSpec{NodeName: "node"},
	}
	runtime := &garbageRuntime{pods: []cri.Pod{{UID: "on-runtime"}}}
	c, keeper := collectorOf(t, runtime, "worker")
	if err := keeper.api.Create(t.Context(), listed); err != nil {
		t.Fatal(err)
	}
	c.dirs = dirs
	for _, uid := range []string{"listed", "on-runtime", "worker", "gone", "gone-too"} {
		for _, dir := range []string{filepath.Join(root, "pods", uid, "volumes"), filepath.Join(root, "logs", "ns_"+uid+"_"+uid, "c")} {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}
	}
	left := func() (uids []string) {
		t.Helper()
		pods, err := dirs.Pods(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range pods {
			uids = append(uids, string(id.UID))
		}
		return uids
	}
	keeper.synced = func() bool { return false }
	if err := c.removeLeftovers(t.Context()); err != nil || len(left()) != 5 {
		t.Errorf("left %q, error %v, want all before the list is complete", left(), err)
	}
	keeper.synced = func() bool { return true }
	if err := c.removeLeftovers(t.Context()); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"listed", "on-runtime", "worker"}, left()); diff != "" {
		t.Errorf("left (-want +got)\n%s", diff)
	}
	if entries, err := os.ReadDir(filepath.Join(root, "logs")); err != nil || len(entries) != 3 {
		t.Errorf("logs %v, error %v", entries, err)
	}
}

// endedStore has the checkpoint of a workload that has ended and still has its object.
type endedStore struct {
	podworker.Store
	uid types.UID
}

func (s endedStore) Load() ([]*podworker.Checkpoint, error) {
	return []*podworker.Checkpoint{{
		Identity: podworker.Identity{UID: s.uid, Namespace: "ns", Name: string(s.uid)}, State: podworker.Terminated,
	}}, nil
}

// A disk that is short gets back the dead containers and sandboxes of what has ended, evicted or
// by itself; until then they stay with the object, and of what may be started the newest stays.
func TestReclaimRemovesWhatHasEnded(t *testing.T) {
	dead := func(uid types.UID) *plan.PodStatus {
		return &plan.PodStatus{
			Containers: []plan.ContainerStatus{{ID: string(uid) + "-c", Name: "c", State: plan.ContainerExited, SandboxID: string(uid) + "-s"}},
			Sandboxes:  []plan.SandboxStatus{{ID: string(uid) + "-s", State: plan.SandboxNotReady}},
		}
	}
	runtime := &garbageRuntime{statuses: map[types.UID]*plan.PodStatus{}}
	for _, uid := range []types.UID{"ended", "foreign", "started"} {
		runtime.pods = append(runtime.pods, cri.Pod{UID: uid, Ours: uid != "foreign", Dead: 1, Sandboxes: []string{string(uid) + "-s"}})
		runtime.statuses[uid] = dead(uid)
	}
	c, keeper := collectorOf(t, runtime)
	c.pool = podworker.New(podworker.Config{Store: endedStore{uid: "ended"}})
	if err := c.pool.Restore(); err != nil {
		t.Fatal(err)
	}
	c.pool.Update(template.Of(&v1alpha1.NodeWorkload{ObjectMeta: metav1.ObjectMeta{UID: "started", Namespace: "ns", Name: "started"}}))
	step := func(when string, collect func(context.Context) error, want ...string) {
		t.Helper()
		if err := collect(t.Context()); err != nil {
			t.Errorf("%s: %v", when, err)
		}
		if diff := cmp.Diff(want, runtime.touched); diff != "" {
			t.Errorf("%s (-want +got)\n%s", when, diff)
		}
	}
	step("each minute", c.collectContainers)
	keeper.synced = func() bool { return false }
	step("before the list of workloads is complete", c.Reclaim)
	keeper.synced = func() bool { return true }
	runtime.removing = func(string) { runtime.statuses["ended"].Containers = nil }
	step("short of disk", c.Reclaim, "remove ended-c", "stop ended-s", "remove ended-s")
}
