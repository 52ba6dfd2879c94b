// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/clock"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// fakeNode is a node in memory: runtime, executor, API server and all, as far as
// a worker sees them. It writes down what was asked of it.
type fakeNode struct {
	t  *testing.T
	mu sync.Mutex
	// oomKills is the kernel's count of the only pod.
	oomKills int64
	// lookedAt is when a pod was last observed, and looks how often since then
	// without any time passing.
	lookedAt time.Time
	looks    int
	calls    []string
	pods     map[types.UID]*fakePod
	// syncing and killing replace what the executor does, if set.
	syncing func(ctx context.Context, r plan.SyncRequest) plan.SyncOutcome
	killing func(ctx context.Context, r plan.KillRequest) error
	// preparing replaces what becomes of an image that a change waits for, if set.
	preparing func(ctx context.Context, image plan.ImageKey, begins func()) (plan.Preparation, error)
	// private are the images, as the runtime calls them, that no pod may use.
	private map[string]bool
	// probed is the pod whose probes run, and verdicts what they say.
	probed   *corev1.Pod
	probedOf *plan.PodStatus
	verdicts map[string]plan.ProbeResults
	// removing answers a removal before anything is removed, if set.
	removing func(id string) error
	// resuming is what finishing an earlier process's kills waits for, if set.
	resuming func(kills []plan.KillProgress) error
	// api is what was published last, and gone the objects that do not exist.
	api     map[types.UID]*v1alpha1.NodeWorkloadStatus
	gone    map[types.UID]bool
	apiDown bool
	// objects are what the API has.
	objects map[types.NamespacedName]*template.Workload
	// liveReads counts the reads past the cache.
	liveReads int
	store     Store
	shortened []int64
	// exitsNoted is how often kills were told to look for exits.
	exitsNoted int
	// outdated is how often kills under way were said to be out of date.
	outdated int
	// starting are the containers whose postStart hook has not ended, by ID.
	starting map[string]bool
	killed   []plan.KillRequest
	resumed  []plan.KillProgress
	synced   []plan.SyncRequest
	// deaths are the containers after whose exit older dead ones were removed.
	deaths     []string
	recordable *corev1.Pod
	// prepared are the pods whose place was brought up to date without a start,
	// podDirConditions what is said about it, releaseErr why it is not given back.
	prepared         []*corev1.Pod
	followed         *corev1.Pod // what files of volumes follow
	podDirConditions []corev1.PodCondition
	outsideCgroup    bool
	// imagesHang: the image service does not answer; imagesTake is how long it takes for
	// an answer; imagesLost are images that were removed since they were pulled, and
	// imagesFail those about which it answers with an error.
	imagesHang bool
	imagesTake time.Duration
	imagesLost map[string]bool
	imagesFail map[string]bool
	// imagesAsked counts the images that were asked about.
	imagesAsked int
	releaseErr  error
	// removeErr is why it is not removed, leftovers what is in its cgroup then, and leftoverErr why
	// that does not end.
	removeErr   error
	leftovers   []Leftover
	leftoverErr error
	// sandboxStopped: no sandbox is ready.
	sandboxStopped bool
	observeErr     error
	failure        string
	clock          *clock.Clock
	pool           *Pool
}

type fakePod struct {
	sandbox    string
	stopped    bool
	onTheHost  bool
	foreign    []plan.ForeignContainer
	containers []plan.ContainerStatus
}

func newFakeNode(t *testing.T) *fakeNode {
	t.Helper()
	store, err := NewCheckpoints(t.TempDir(), logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	return &fakeNode{
		t:    t,
		pods: map[types.UID]*fakePod{}, api: map[types.UID]*v1alpha1.NodeWorkloadStatus{},
		gone: map[types.UID]bool{}, store: store,
	}
}

// start makes a pool over the node and runs it for the rest of the test.
func (n *fakeNode) start(t *testing.T) *Pool {
	t.Helper()
	p := n.restore(t)
	n.begin(t)
	return p
}

// restore makes a pool over the node.
func (n *fakeNode) restore(t *testing.T) *Pool {
	t.Helper()
	return n.restoreWith(t, func(*Config) {})
}

// restoreWith makes a pool over the node with a configuration of its own.
func (n *fakeNode) restoreWith(t *testing.T, change func(*Config)) *Pool {
	t.Helper()
	cfg := Config{
		Runtime: n, Executor: n, Prober: n, PodDir: fakeDirs{n}, Publisher: n, Events: n, Store: n.store,
		Log: logr.Discard(), ClusterID: func() string { return "cluster" }, BootID: "boot",
		HostIPs: []string{"192.0.2.1"}, RuntimeName: "fake", Clock: n.clock,
	}
	change(&cfg)
	n.pool = New(cfg)
	if err := n.pool.Restore(); err != nil {
		t.Fatal(err)
	}
	return n.pool
}

// begin runs the pool for the rest of the test.
func (n *fakeNode) begin(t *testing.T) {
	t.Helper()
	n.beginWith(t, Usable{OK: true, Reason: v1alpha1.ReasonRuntimeReady})
}

func (n *fakeNode) beginWith(t *testing.T, usable Usable) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = n.pool.Run(ctx)
	}()
	n.pool.SetUsable(usable)
	n.pool.SetStaticUsable(usable)
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

func (n *fakeNode) note(format string, args ...any) {
	n.calls = append(n.calls, fmt.Sprintf(format, args...))
}

func (n *fakeNode) did(call string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Contains(n.calls, call)
}

func (n *fakeNode) log() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.calls)
}

func (n *fakeNode) published(uid types.UID) v1alpha1.NodeWorkloadStatus {
	n.mu.Lock()
	defer n.mu.Unlock()
	if st := n.api[uid]; st != nil {
		return *st.DeepCopy()
	}
	return v1alpha1.NodeWorkloadStatus{}
}

// maxLooks is how often a pod may be observed in one moment.
const maxLooks = 1000

// spins reports whether workers go round and round. On a virtual clock no time
// passes meanwhile, and the test would never end.
func (n *fakeNode) spins() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if now := time.Now(); !now.Equal(n.lookedAt) {
		n.lookedAt, n.looks = now, 0
	}
	n.looks++
	if n.looks == maxLooks {
		n.t.Errorf("a worker goes round and round: %q", n.calls[max(0, len(n.calls)-10):])
	}
	return n.looks >= maxLooks
}

// Images has every image but those whose name says that it does not.
func (n *fakeNode) Images(ctx context.Context, names []string) plan.Images {
	images := plan.Images{}
	if n.asks(ctx) != nil {
		return images
	}
	for _, name := range names {
		images[name] = "sha256:" + name
		if strings.HasPrefix(name, "absent") {
			images[name] = ""
		}
	}
	return images
}

// ImageRef has every image that was not removed.
func (n *fakeNode) ImageRef(ctx context.Context, image string) (string, error) {
	if err := n.asks(ctx); err != nil {
		return "", err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.imagesFail[image] {
		return "", fmt.Errorf("no answer about %s", image)
	}
	if n.imagesLost[image] {
		return "", nil
	}
	return image, nil
}

// asks waits for the answer of the image service.
func (n *fakeNode) asks(ctx context.Context) error {
	n.mu.Lock()
	hangs, take := n.imagesHang, n.imagesTake
	n.imagesAsked++
	n.mu.Unlock()
	if hangs {
		<-ctx.Done()
	} else if take > 0 {
		select {
		case <-ctx.Done():
		case <-time.After(take):
		}
	}
	return ctx.Err()
}

func (n *fakeNode) PodStatus(ctx context.Context, uid types.UID) (*plan.PodStatus, error) {
	if n.spins() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	st := &plan.PodStatus{ID: string(uid)}
	if n.observeErr != nil {
		return nil, n.observeErr
	}
	p := n.pods[uid]
	if p == nil {
		return st, nil
	}
	if p.sandbox != "" {
		st.Sandboxes = []plan.SandboxStatus{{
			ID: p.sandbox, State: plan.SandboxReady, NetworkNamespace: "POD",
			Network: &plan.SandboxNetwork{IP: "10.0.0.2"}, CreatedAt: time.Now(),
		}}
		if p.stopped || n.sandboxStopped {
			st.Sandboxes[0].State = plan.SandboxNotReady
		}
		if p.onTheHost {
			st.Sandboxes[0].NetworkNamespace = "NODE"
		}
		st.IPs, st.Foreign = []string{"10.0.0.2"}, p.foreign
	}
	st.Containers = slices.Clone(p.containers)
	for _, c := range p.containers {
		st.ActiveContainerIDs = append(st.ActiveContainerIDs, c.ID)
	}
	return st, nil
}

func (n *fakeNode) RecordedPod(context.Context, types.UID) (*corev1.Pod, error) {
	return n.recordable, nil
}

func (n *fakeNode) RemoveContainer(_ context.Context, id string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.removing != nil {
		if err := n.removing(id); err != nil {
			return err
		}
	}
	n.note("remove container %s", id)
	return nil
}

func (n *fakeNode) StopSandbox(_ context.Context, id string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.note("stop sandbox %s", id)
	for _, p := range n.pods {
		p.stopped = p.stopped || p.sandbox == id
	}
	return nil
}

func (n *fakeNode) RemoveSandbox(_ context.Context, id string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.note("remove sandbox %s", id)
	for uid, p := range n.pods {
		if p.sandbox == id {
			delete(n.pods, uid)
		}
	}
	return nil
}

// SyncPod starts what the plan says.
func (n *fakeNode) SyncPod(ctx context.Context, r plan.SyncRequest) plan.SyncOutcome {
	n.mu.Lock()
	n.synced = append(n.synced, r)
	syncing := n.syncing
	n.mu.Unlock()
	if syncing != nil {
		return syncing(ctx, r)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.run(r)
	return plan.SyncOutcome{}
}

func (n *fakeNode) run(r plan.SyncRequest) {
	p := n.pods[r.Pod.UID]
	if p == nil {
		p = &fakePod{sandbox: "sandbox-" + string(r.Pod.UID), onTheHost: r.Pod.Spec.HostNetwork}
		n.pods[r.Pod.UID] = p
	}
	for _, k := range r.Actions.ContainersToKill {
		p.containers = slices.DeleteFunc(p.containers, func(c plan.ContainerStatus) bool { return c.ID == k.ID })
	}
	for _, i := range r.Actions.ContainersToStart {
		c := r.Pod.Spec.Containers[i]
		n.note("start %s %s", c.Name, c.Image)
		p.containers = append([]plan.ContainerStatus{{
			ID: fmt.Sprintf("%s-%d", c.Name, len(n.synced)), Name: c.Name, SandboxID: p.sandbox, Image: c.Image,
			State: plan.ContainerRunning, CreatedAt: time.Now(), StartedAt: time.Now(),
			Hash: plan.HashContainer(&c),
		}}, p.containers...)
	}
}

// exit makes the containers of a pod leave by themselves.
func (n *fakeNode) exit(uid types.UID, code int32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stop(uid, code)
}

func (n *fakeNode) stop(uid types.UID, code int32) {
	if p := n.pods[uid]; p != nil {
		for i := range p.containers {
			p.containers[i].State, p.containers[i].ExitCode, p.containers[i].FinishedAt = plan.ContainerExited, code, time.Now()
			p.containers[i].Reason = "Completed"
		}
	}
}

// KillPod ends all containers, with a record for each.
func (n *fakeNode) KillPod(ctx context.Context, r plan.KillRequest) ([]plan.Result, error) {
	n.mu.Lock()
	n.killed = append(n.killed, r)
	n.note("kill pod")
	killing := n.killing
	n.mu.Unlock()
	if killing != nil {
		return nil, killing(ctx, r)
	}
	n.kill(r)
	return nil, nil
}

func (n *fakeNode) kill(r plan.KillRequest) {
	for _, c := range r.Observed.Containers {
		if c.State == plan.ContainerRunning {
			n.pool.Kill(r.Pod.UID, killRecord(r, c, v1alpha1.KillPhaseStopping))
			n.pool.Kill(r.Pod.UID, killRecord(r, c, v1alpha1.KillPhaseDone))
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stop(r.Pod.UID, 0)
}

func killRecord(r plan.KillRequest, c plan.ContainerStatus, phase v1alpha1.KillPhase) plan.KillProgress {
	rec := v1alpha1.KillRecord{
		ID: "kill-" + c.ID, Container: c.Name, ContainerID: c.ID, Trigger: r.Trigger, Message: r.Message, RequestedBy: r.RequestedBy,
		Phase: phase, Grace: v1alpha1.KillGrace{Seconds: r.Override.Seconds, Source: r.Override.Source}, StartTime: metav1.NowMicro(),
	}
	if phase == v1alpha1.KillPhaseDone {
		rec.Outcome = v1alpha1.KillOutcomeGraceful
	}
	return plan.KillProgress{Record: rec}
}

func (n *fakeNode) Shorten(_ types.UID, seconds int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.shortened = append(n.shortened, seconds)
}

func (n *fakeNode) Outdate(types.UID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.outdated++
}

func (n *fakeNode) NoteExits(context.Context, types.UID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.exitsNoted++
}

func (n *fakeNode) Starting(types.UID) map[string]bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.starting)
}

func (n *fakeNode) RemoveDead(_ context.Context, _ *plan.PodStatus, exitedID string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.deaths = append(n.deaths, exitedID)
	return nil
}

func (n *fakeNode) Resume(_ context.Context, pod *corev1.Pod, kills []plan.KillProgress) error {
	n.mu.Lock()
	n.resumed = append(n.resumed, kills...)
	n.note("resume")
	resuming := n.resuming
	n.mu.Unlock()
	if resuming != nil {
		if err := resuming(kills); err != nil {
			return err
		}
	}
	for _, k := range kills {
		k.Record.Phase, k.Record.Outcome = v1alpha1.KillPhaseDone, v1alpha1.KillOutcomeGraceful
		n.pool.Kill(pod.UID, k)
	}
	return nil
}

func (n *fakeNode) Update(pod *corev1.Pod, observed *plan.PodStatus, _ *corev1.PodStatus) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.probed, n.probedOf = pod, observed
}

func (n *fakeNode) StopLivenessAndStartup(types.UID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.note("stop liveness and startup")
}

func (n *fakeNode) Remove(types.UID) {}

func (n *fakeNode) Results(types.UID) map[string]plan.ProbeResults {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.verdicts
}

func (n *fakeNode) LastFailure(types.UID, string, v1alpha1.KillTrigger) string { return n.failure }

type fakeDirs struct{ n *fakeNode }

func (d fakeDirs) Prepare(_ context.Context, pod *corev1.Pod) error {
	d.n.mu.Lock()
	defer d.n.mu.Unlock()
	d.n.prepared = append(d.n.prepared, pod)
	return nil
}

func (d fakeDirs) Follow(pod *corev1.Pod) {
	d.n.mu.Lock()
	defer d.n.mu.Unlock()
	d.n.followed = pod
}

func (d fakeDirs) Conditions(context.Context, *corev1.Pod, *plan.PodStatus) []corev1.PodCondition {
	d.n.mu.Lock()
	defer d.n.mu.Unlock()
	return d.n.podDirConditions
}

func (d fakeDirs) OOMKills(types.UID) (int64, bool) {
	d.n.mu.Lock()
	defer d.n.mu.Unlock()
	return d.n.oomKills, true
}

func (d fakeDirs) OutsideCgroup(context.Context, *corev1.Pod, *plan.PodStatus) bool {
	d.n.mu.Lock()
	defer d.n.mu.Unlock()
	return d.n.outsideCgroup
}

func (d fakeDirs) Release(context.Context, Identity) error {
	d.n.mu.Lock()
	defer d.n.mu.Unlock()
	d.n.note("release volumes")
	return d.n.releaseErr
}

func (d fakeDirs) Remove(context.Context, Identity) error {
	d.n.mu.Lock()
	defer d.n.mu.Unlock()
	d.n.note("remove directories")
	return d.n.removeErr
}

func (d fakeDirs) KillLeftovers(context.Context, types.UID) ([]Leftover, error) {
	d.n.mu.Lock()
	defer d.n.mu.Unlock()
	d.n.note("kill leftovers")
	if d.n.leftovers != nil && d.n.leftoverErr == nil {
		d.n.releaseErr, d.n.removeErr = nil, nil
	}
	return d.n.leftovers, d.n.leftoverErr
}

func (n *fakeNode) Publish(_ context.Context, id Identity, st *v1alpha1.NodeWorkloadStatus) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.gone[id.UID]:
		return ErrGone
	case n.apiDown:
		return fmt.Errorf("the API server is away")
	}
	n.api[id.UID] = st
	n.note("publish %s", st.Summary)
	return nil
}

func (n *fakeNode) Live(_ context.Context, of Identity) (*template.Workload, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.liveReads++
	switch nw := n.objects[of.key()]; {
	case n.apiDown:
		return nil, fmt.Errorf("the API server is away")
	case nw == nil:
		return nil, ErrGone
	default:
		return nw.DeepCopy(), nil
	}
}

// has makes an object one that the API has.
func (n *fakeNode) has(nw *template.Workload) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.objects == nil {
		n.objects = map[types.NamespacedName]*template.Workload{}
	}
	n.objects[types.NamespacedName{Namespace: nw.Namespace, Name: nw.Name}] = nw
}

func (n *fakeNode) Release(_ context.Context, id Identity) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.note("release %s", id.UID)
	return nil
}

func (n *fakeNode) Event(_ *corev1.Pod, _, _, reason, message string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.note("event %s: %s", reason, message)
}

// workload is a NodeWorkload with one container.
func workload(uid string, change ...func(*template.Workload)) *template.Workload {
	nw := &template.Workload{
		NodeWorkload: v1alpha1.NodeWorkload{
			ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Namespace: "ns", Name: uid, Generation: 1},
			Spec:       v1alpha1.NodeWorkloadSpec{NodeName: "node"},
		},
		Template: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "image:1"}}}},
	}
	for _, f := range change {
		f(nw)
	}
	return nw
}

func generation(g int64) func(*template.Workload) {
	return func(nw *template.Workload) { nw.Generation = g }
}

func image(name string) func(*template.Workload) {
	return func(nw *template.Workload) { nw.Template.Spec.Containers[0].Image = name }
}

func deleted(grace *int64) func(*template.Workload) {
	return func(nw *template.Workload) {
		now := metav1.Now()
		nw.DeletionTimestamp = &now
		nw.Generation++
		nw.Spec.DeletionGracePeriodSeconds = grace
	}
}

// settle lets a moment pass and everything that follows from it happen. What the
// test read before is read before anything that follows.
func (n *fakeNode) settle(d time.Duration) {
	n.mu.Lock()
	n.mu.Unlock() //nolint:staticcheck // the lock alone orders what the test read
	time.Sleep(d)
	synctest.Wait()
}

// ImageUsable says so of each image that is not private.
func (n *fakeNode) ImageUsable(_ context.Context, _ *corev1.Pod, _, ref string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.private[ref]
}

// PrepareImage has an image at once unless preparing says otherwise.
func (n *fakeNode) PrepareImage(ctx context.Context, _ *corev1.Pod, _ string, image plan.ImageKey, begins func()) (plan.Preparation, error) {
	n.mu.Lock()
	preparing := n.preparing
	n.note("prepare %s", image.Image)
	n.mu.Unlock()
	if preparing != nil {
		return preparing(ctx, image, begins)
	}
	return plan.Preparation{Ref: "sha256:" + image.Image}, nil
}
