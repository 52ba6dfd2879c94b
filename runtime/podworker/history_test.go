// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/executor"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/probe"
)

// Whatever happens to a workload's containers, sandboxes, shim and node: no instance is ready
// before its own probes say so, no main container runs before all init containers have completed
// in its sandbox, none runs again that has ended for good, and what is wanted is reached.
// More histories: -rapid.checks=10000.
func TestPropertyHistories(t *testing.T) {
	checks := flag.Lookup("rapid.checks")
	if checks.Value.String() == checks.DefValue {
		// A power cut at the one call that matters is in one history of a hundred.
		if err := flag.Set(checks.Name, "500"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = flag.Set(checks.Name, checks.DefValue) })
	}
	rapid.Check(t, func(rt *rapid.T) {
		rapid.SyncTest(rt, func(rt *rapid.T) {
			h := drawHistory(rt)
			h.begin(rt)
			for range rapid.IntRange(1, 6).Draw(rt, "events") {
				h.happen(rt)
				h.pass(rt, time.Duration(rapid.SampledFrom([]int{0, 1, 2, 5, 20, 60}).Draw(rt, "seconds"))*time.Second)
			}
			h.come(rt)
			h.end()
		})
	})
}

// Wherever the power, or the shim, is lost while a workload starts: its init containers have
// completed in the sandbox in which its main container runs.
func TestLossAtEachCallOfAStart(t *testing.T) {
	for _, policy := range []corev1.RestartPolicy{corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever} {
		for after := range 8 {
			for _, power := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, power %t, after %d calls", policy, power, after), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						h := newHistory()
						h.starts(policy)
						h.node.cutAfter, h.node.power = after, power
						h.begin(t)
						h.pass(t, time.Minute)
						h.come(t)
						h.end()
					})
				})
			}
		}
	}
}

// An init container that could not be removed while its sandbox was replaced changes nothing.
func TestRemovalThatFailsWhileTheSandboxIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHistory()
		h.starts(corev1.RestartPolicyAlways)
		h.begin(t)
		h.pass(t, time.Minute)
		h.node.mu.Lock()
		h.node.failing["RemoveContainer i1"] = true
		h.node.stopSandbox(h.node.sandboxes[0].ID)
		h.node.mu.Unlock()
		h.pool.Wake("a")
		h.pass(t, time.Minute)
		h.come(t)
		h.end()
	})
}

// starts has the workload start two init containers and a main one.
func (h *history) starts(policy corev1.RestartPolicy) {
	spec := &h.nw.Template.Spec
	spec.RestartPolicy = policy
	for _, name := range []string{"i0", "i1"} {
		spec.InitContainers = append(spec.InitContainers, corev1.Container{Name: name, Image: "image:1"})
		h.node.spec[name] = containerScript{runs: 5 * time.Second}
	}
	h.api.template = *spec
}

// history is one workload on one node.
type history struct {
	node *historyNode
	api  *historyAPI
	nw   *template.Workload
	boot int

	pool *Pool
	stop func()
	// away is for how long no shim runs after the end of one.
	away func() time.Duration
}

type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func newHistory() *history {
	h := &history{
		node: &historyNode{
			uid: "a", spec: map[string]containerScript{}, cutAfter: -1, failing: map[string]bool{}, woken: func() {},
			completed: map[string]bool{}, ran: map[string]bool{}, done: map[string]bool{}, passed: map[string]bool{},
		},
		nw: workload("a"), away: func() time.Duration { return time.Second },
	}
	h.api = &historyAPI{node: h.node, checkpoints: map[types.UID][]byte{}}
	return h
}

func drawHistory(rt *rapid.T) *history {
	h := newHistory()
	h.away = func() time.Duration { return time.Duration(rapid.IntRange(0, 3).Draw(rt, "away")) * time.Second }
	spec := &h.nw.Template.Spec
	spec.TerminationGracePeriodSeconds = new(int64(5))
	spec.Containers = nil
	spec.RestartPolicy = rapid.SampledFrom([]corev1.RestartPolicy{
		corev1.RestartPolicyAlways, corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever,
	}).Draw(rt, "policy")
	for i := range rapid.IntRange(0, 3).Draw(rt, "init containers") {
		c := corev1.Container{Name: fmt.Sprintf("i%d", i), Image: "image:1"}
		script := containerScript{runs: time.Duration(rapid.IntRange(1, 9).Draw(rt, "runs")) * time.Second}
		if rapid.IntRange(0, 2).Draw(rt, "sidecar") == 0 {
			c.Name, c.RestartPolicy = fmt.Sprintf("s%d", i), new(corev1.ContainerRestartPolicyAlways)
			script = drawProbes(rt, &c)
		} else if spec.RestartPolicy != corev1.RestartPolicyNever && rapid.IntRange(0, 4).Draw(rt, "fails") == 0 {
			script.failures = 1
		}
		h.node.spec[c.Name] = script
		spec.InitContainers = append(spec.InitContainers, c)
	}
	for i := range rapid.IntRange(1, 2).Draw(rt, "main containers") {
		c := corev1.Container{Name: fmt.Sprintf("c%d", i), Image: "image:1"}
		h.node.spec[c.Name] = drawProbes(rt, &c)
		spec.Containers = append(spec.Containers, c)
	}
	h.api.template = *spec
	return h
}

func drawProbes(rt *rapid.T, c *corev1.Container) containerScript {
	probes := func(kind string) *corev1.Probe {
		if !rapid.Bool().Draw(rt, kind+" probe") {
			return nil
		}
		return &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{kind}}}, PeriodSeconds: 2, TimeoutSeconds: 1,
			FailureThreshold: 100, SuccessThreshold: 1,
		}
	}
	c.StartupProbe, c.ReadinessProbe = probes("started"), probes("ready")
	return containerScript{
		started: time.Duration(rapid.IntRange(0, 6).Draw(rt, "started after")) * time.Second,
		ready:   time.Duration(rapid.IntRange(0, 6).Draw(rt, "ready after")) * time.Second,
	}
}

// begin starts a shim, after the node if that has ended.
func (h *history) begin(t tester) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	h.node.mu.Lock()
	h.node.calls = append(h.node.calls, fmt.Sprintf("a shim begins, boot %d", h.boot))
	h.node.mu.Unlock()
	var pool *Pool
	wake := func(uid types.UID) { pool.Wake(uid) }
	prober := probe.NewManager(ctx, h.node, h.api, wake, time.Now())
	e := executor.New(executor.Config{
		Runtime: h.node, Events: h.api, Kills: killSink(func(uid types.UID, k plan.KillProgress) { pool.Kill(uid, k) }),
		Differences: plan.AllDifferences(), RuntimeName: "fake",
	})
	pool = New(Config{
		Runtime: h.node, Executor: e, Prober: prober, PodDir: historyDirs{}, Publisher: h.api, Events: h.api, Store: h.api,
		Log: logr.Discard(), ClusterID: func() string { return "cluster" }, BootID: fmt.Sprint("boot-", h.boot), StartedAt: time.Now(),
		HostIPs: []string{"192.0.2.1"}, RuntimeName: "fake",
	})
	if err := pool.Restore(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = pool.Run(ctx)
	}()
	h.pool, h.stop = pool, func() {
		e.Interrupt()
		cancel()
		<-done
		prober.Close()
	}
	h.node.mu.Lock()
	h.node.woken = func() { pool.Wake(h.node.uid) }
	h.node.mu.Unlock()
	pool.SetUsable(Usable{OK: true, Reason: v1alpha1.ReasonRuntimeReady})
	nw := h.nw.DeepCopy()
	nw.Status = h.api.published()
	pool.Update(nw)
}

func (h *history) end() {
	h.node.mu.Lock()
	h.node.woken = func() {}
	h.node.mu.Unlock()
	h.stop()
}

// pass lets time pass, starts what has ended, and looks for what must not be.
func (h *history) pass(t tester, d time.Duration) {
	t.Helper()
	time.Sleep(d)
	synctest.Wait()
	h.node.mu.Lock()
	dark, violations, calls := h.node.dark, h.node.violations, slices.Clone(h.node.calls)
	h.node.mu.Unlock()
	if len(violations) > 0 {
		h.end()
		t.Fatalf("%s\n%s", strings.Join(violations, "\n"), strings.Join(calls, "\n"))
	}
	if !dark {
		return
	}
	h.end()
	time.Sleep(h.away())
	h.node.mu.Lock()
	if h.node.power {
		h.boot++
	}
	h.node.dark, h.node.power = false, false
	h.node.mu.Unlock()
	h.begin(t)
	h.pass(t, time.Second)
}

// happen has something happen to the workload.
func (h *history) happen(rt *rapid.T) {
	n, always := h.node, h.nw.Template.Spec.RestartPolicy == corev1.RestartPolicyAlways
	event := rapid.SampledFrom([]string{
		"exit", "sandbox lost", "pause lost", "removed", "all removed", "shim ends", "power cut", "call fails", "new image", "new host name",
	}).Draw(rt, "event")
	n.mu.Lock()
	n.calls = append(n.calls, "event: "+event)
	switch event {
	case "exit":
		h.exit(rt)
	case "sandbox lost", "pause lost":
		if len(n.sandboxes) > 0 {
			if event == "sandbox lost" {
				n.stopSandbox(n.sandboxes[0].ID)
			}
			n.sandboxes[0].State, n.sandboxes[0].Network = plan.SandboxNotReady, nil
		}
	case "removed", "all removed":
		h.remove(rt, event == "all removed")
	case "shim ends", "power cut":
		n.cutAfter, n.power = rapid.IntRange(0, 8).Draw(rt, "after calls"), event == "power cut"
		// So that there are calls.
		if len(n.sandboxes) > 0 && rapid.Bool().Draw(rt, "with the sandbox") {
			n.stopSandbox(n.sandboxes[0].ID)
		}
	case "call fails":
		n.failing[rapid.SampledFrom([]string{"RemoveContainer", "RemoveContainer i1", "StartContainer", "CreateContainer", "RunSandbox"}).Draw(rt, "method")] = true
		if len(n.sandboxes) > 0 && rapid.Bool().Draw(rt, "with the sandbox") {
			n.stopSandbox(n.sandboxes[0].ID)
		}
	case "new image":
		if always {
			h.change(func(spec *corev1.PodSpec) { spec.Containers[0].Image = fmt.Sprint("image:", h.nw.Generation) })
		}
	case "new host name":
		if always {
			h.change(func(spec *corev1.PodSpec) { spec.Hostname = fmt.Sprint("host-", h.nw.Generation) })
		}
	}
	n.mu.Unlock()
	nw := h.nw.DeepCopy()
	nw.Status = h.api.published()
	h.pool.Update(nw)
	h.pool.Wake(n.uid)
}

// change has the template say something else; the node is locked.
func (h *history) change(edit func(*corev1.PodSpec)) {
	h.nw = h.nw.DeepCopy()
	h.nw.Generation++
	edit(&h.nw.Template.Spec)
	// What has completed is run again by nothing but a change.
	clear(h.node.done)
}

// exit ends a container that runs; the node is locked.
func (h *history) exit(rt *rapid.T) {
	code := rapid.SampledFrom([]int32{0, 1}).Draw(rt, "exit code")
	at := rapid.IntRange(0, 4).Draw(rt, "which")
	for i := range h.node.containers {
		c := &h.node.containers[i]
		if plainInit := c.Recorded.Place.Init && !c.Recorded.Place.Sidecar; c.State != plan.ContainerRunning || plainInit {
			continue
		}
		if at--; at < 0 {
			h.node.exits(c, code)
			return
		}
	}
}

// remove removes containers over CRI that have exited, and that the shim has seen for a while;
// the node is locked.
func (h *history) remove(rt *rapid.T, all bool) {
	at, policy := rapid.IntRange(0, 4).Draw(rt, "which"), h.nw.Template.Spec.RestartPolicy
	h.node.containers = slices.DeleteFunc(h.node.containers, func(c plan.ContainerStatus) bool {
		if c.State != plan.ContainerExited || time.Since(c.FinishedAt) < 5*time.Second || h.node.dark {
			return false
		}
		if at--; at >= 0 && !all {
			return false
		}
		newest := !slices.ContainsFunc(h.node.containers, func(other plan.ContainerStatus) bool {
			return other.Name == c.Name && other.RestartCount > c.RestartCount
		})
		if !c.Recorded.Place.Init && newest && (policy == corev1.RestartPolicyNever || policy == corev1.RestartPolicyOnFailure && c.ExitCode == 0) {
			h.node.done[c.Name] = true
		}
		h.node.calls = append(h.node.calls, "removed over CRI: "+c.ID)
		return true
	})
}

// come lets the workload come to rest, and looks whether it is as it is wanted.
func (h *history) come(t tester) {
	t.Helper()
	h.node.mu.Lock()
	clear(h.node.failing)
	if !h.node.dark {
		h.node.cutAfter = -1
	}
	h.node.mu.Unlock()
	h.pass(t, 10*time.Minute)
	st := h.api.published()
	h.node.mu.Lock()
	missing := h.missing(&st)
	calls := strings.Join(h.node.calls, "\n")
	h.node.mu.Unlock()
	if missing != "" {
		h.end()
		t.Fatalf("%s; phase %s, summary %q\n%s", missing, st.Phase, st.Summary, calls)
	}
}

// missing says what is not as it is wanted; the node is locked.
func (h *history) missing(st *v1alpha1.NodeWorkloadStatus) string {
	runs, ran := 0, 0
	spec := &h.nw.Template.Spec
	for i := range spec.Containers {
		name := spec.Containers[i].Name
		if h.node.ran[name] {
			ran++
		}
		if slices.ContainsFunc(h.node.containers, func(c plan.ContainerStatus) bool {
			return c.Name == name && c.State == plan.ContainerRunning && c.SandboxID == h.node.sandboxes[0].ID && c.Image == spec.Containers[i].Image
		}) {
			runs++
		}
	}
	ready := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionReady)
	switch {
	case spec.RestartPolicy != corev1.RestartPolicyAlways && plan.Ended(st.Phase) && ran == len(spec.Containers) && runs == 0:
	case st.Phase != corev1.PodRunning || runs == 0:
		return fmt.Sprintf("%d of %d containers ran, and %d run", ran, len(spec.Containers), runs)
	case spec.RestartPolicy == corev1.RestartPolicyAlways && (runs < len(spec.Containers) || ready == nil || ready.Status != metav1.ConditionTrue):
		return fmt.Sprintf("%d of %d containers run; ready: %+v", runs, len(spec.Containers), ready)
	}
	return ""
}

type killSink func(types.UID, plan.KillProgress)

func (k killSink) Kill(uid types.UID, kill plan.KillProgress) { k(uid, kill) }

// historyAPI is the API server and the shim's disk.
type historyAPI struct {
	node        *historyNode
	template    corev1.PodSpec
	status      v1alpha1.NodeWorkloadStatus
	checkpoints map[types.UID][]byte
}

func (a *historyAPI) published() v1alpha1.NodeWorkloadStatus {
	a.node.mu.Lock()
	defer a.node.mu.Unlock()
	return *a.status.DeepCopy()
}

// Publish looks whether what is said to be ready is.
func (a *historyAPI) Publish(_ context.Context, _ Identity, st *v1alpha1.NodeWorkloadStatus) error {
	a.node.mu.Lock()
	defer a.node.mu.Unlock()
	if a.node.dark {
		return errDark
	}
	st.DeepCopyInto(&a.status)
	ready := meta.IsStatusConditionTrue(st.Conditions, v1alpha1.ConditionReady)
	for _, list := range [][]corev1.Container{a.template.Containers, a.template.InitContainers} {
		for i := range list {
			a.check(&list[i], st, ready)
		}
	}
	return nil
}

func (a *historyAPI) check(c *corev1.Container, st *v1alpha1.NodeWorkloadStatus, podReady bool) {
	for _, s := range slices.Concat(st.ContainerStatuses, st.InitContainerStatuses) {
		if s.Name != c.Name || s.State.Running == nil {
			continue
		}
		id := strings.TrimPrefix(s.ContainerID, "fake://")
		started := c.StartupProbe == nil || a.node.passed[id+"/started"]
		isReady := started && (c.ReadinessProbe == nil || a.node.passed[id+"/ready"])
		if s.Ready && !isReady || podReady && !isReady {
			a.node.violated("%s is said to be ready (pod: %t) before its probes say so", id, podReady)
		}
		if s.Started != nil && *s.Started && !started {
			a.node.violated("%s is said to have started before its probe says so", id)
		}
	}
}

func (a *historyAPI) Live(context.Context, Identity) (*template.Workload, error) {
	return nil, ErrGone
}

func (a *historyAPI) Release(context.Context, Identity) error { return nil }

func (a *historyAPI) Event(*corev1.Pod, string, string, string, string) {}

func (a *historyAPI) Save(c *Checkpoint) error {
	a.node.mu.Lock()
	defer a.node.mu.Unlock()
	if a.node.dark {
		return errDark
	}
	c.Version = checkpointVersion
	data, err := json.Marshal(c)
	a.checkpoints[c.Identity.UID] = data
	return err
}

func (a *historyAPI) Load() ([]*Checkpoint, error) {
	a.node.mu.Lock()
	defer a.node.mu.Unlock()
	var all []*Checkpoint
	for uid, data := range a.checkpoints {
		c, err := decodeCheckpoint(data, string(uid)+checkpointSuffix)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

func (a *historyAPI) Remove(uid types.UID) error {
	a.node.mu.Lock()
	defer a.node.mu.Unlock()
	delete(a.checkpoints, uid)
	return nil
}

// historyDirs is a place on the node at which nothing goes wrong.
type historyDirs struct{}

func (historyDirs) Prepare(context.Context, *corev1.Pod) error { return nil }

func (historyDirs) Follow(*corev1.Pod) {}

func (historyDirs) Conditions(context.Context, *corev1.Pod, *plan.PodStatus) []corev1.PodCondition {
	return nil
}

func (historyDirs) OutsideCgroup(context.Context, *corev1.Pod, *plan.PodStatus) bool { return false }

func (historyDirs) OOMKills(types.UID) (int64, bool) { return 0, false }

func (historyDirs) Release(context.Context, Identity) error { return nil }

func (historyDirs) Remove(context.Context, Identity) error { return nil }

func (historyDirs) KillLeftovers(context.Context, types.UID) ([]Leftover, error) { return nil, nil }
