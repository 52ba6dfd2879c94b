// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shim runs the core of this project's shim: runtime/cri observes and
// acts, runtime/plan decides and runtime/executor carries out, in the order in
// which runtime/podworker calls them.
package shim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/conformance/kubelet"
	"github.com/managedworkload/managedworkload/hack/fakecri"
	"github.com/managedworkload/managedworkload/runtime/cri"
	"github.com/managedworkload/managedworkload/runtime/executor"
	"github.com/managedworkload/managedworkload/runtime/images"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podcgroup"
	"github.com/managedworkload/managedworkload/runtime/poddir"
	"github.com/managedworkload/managedworkload/runtime/volume"
)

// Agent is this project's side of a comparison.
type Agent struct {
	runtime *fakecri.Runtime
	conn    grpc.ClientConnInterface
	root    string

	client   *cri.Client
	dirs     podDir
	executor *executor.Executor
	backoff  map[string]*plan.Backoff
	probes   map[string]plan.ProbeResults
	// actuated is what containers were given since their creation; it outlives the
	// agent, as in the checkpoint.
	actuated map[string]plan.Resources
	// grace is that of the termination, in seconds; 0 before it.
	grace int64
	// killOrder are the containers that the kubelet killed in this step, in its
	// order; reordered counts the plans that were put into that order.
	killOrder []string
	reordered int

	// stopVolumes ends the loop of the volumes.
	stopVolumes func()

	mu    sync.Mutex
	kills map[string]v1alpha1.KillRecord
}

// New starts an agent that keeps its files below root.
func New(ctx context.Context, r *fakecri.Runtime, conn grpc.ClientConnInterface, root string) (*Agent, error) {
	a := &Agent{stopVolumes: func() {}, runtime: r, conn: conn, root: root, kills: map[string]v1alpha1.KillRecord{}, actuated: map[string]plan.Resources{}}
	return a, a.Restart(ctx)
}

// Restart makes the agent forget what it holds in memory.
func (a *Agent) Restart(ctx context.Context) error {
	dirs, err := newPodDir(a.root)
	if err != nil {
		return err
	}
	a.stopVolumes()
	a.startVolumes(ctx, dirs)
	client, err := cri.New(ctx, a.conn, cri.Config{Instance: "node", PodDir: dirs})
	if err != nil {
		return fmt.Errorf("make the CRI client: %w", err)
	}
	client.SetClusterID("cluster")
	a.client, a.backoff, a.probes = client, plan.BackoffAfterRestart(a.backoff, plan.Differences{}), nil
	// As the kubelet, which asks nothing before a pull.
	pulls := images.New(images.Config{Dir: filepath.Join(a.root, "images"), Events: a}, logr.Discard())
	a.executor = executor.New(executor.Config{
		Runtime: client, Prepare: dirs.Prepare, Events: a, Kills: a, HTTP: a.runtime,
		Images: pulls, LogDirectory: dirs.LogDirectory, RuntimeName: fakecri.Name,
	})
	a.dirs = dirs
	return nil
}

// Event implements executor.Events.
func (a *Agent) Event(_ *corev1.Pod, fieldPath, eventtype, reason, message string) {
	a.runtime.Record("Event", kubelet.ContainerOf(fieldPath), "%s %s %s %q", eventtype, reason, fieldPath, message)
}

// Kill implements executor.KillSink.
func (a *Agent) Kill(_ types.UID, kill plan.KillProgress) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.kills[kill.Record.ID] = kill.Record
}

// Records returns the records of all kills, as they were reported last.
func (a *Agent) Records() []v1alpha1.KillRecord {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Values(a.kills))
}

// SetProbes takes over what the probes say.
func (a *Agent) SetProbes(byID map[string]fakecri.Verdicts) {
	a.probes = map[string]plan.ProbeResults{}
	for id, v := range byID {
		a.probes[id] = plan.ProbeResults{Liveness: plan.ProbeResult(v.Liveness), Startup: plan.ProbeResult(v.Startup)}
	}
}

// Sync is one pass of the pod worker. (runtime/podworker: sync, carryOut) The
// worker leaves a plan alone that has nothing in it; here it is carried out, because
// the kubelet prunes init containers in every sync. (The worker's removeDead does
// that as soon as they have exited.)
func (a *Agent) Sync(ctx context.Context, pod *corev1.Pod) {
	observed, err := a.client.PodStatus(ctx, pod.UID)
	if err != nil {
		a.runtime.Record("ObserveFailed", "", "")
		return
	}
	policy := plan.DefaultBackoffPolicy()
	maps.DeleteFunc(a.backoff, func(_ string, e *plan.Backoff) bool { return policy.Expired(e, time.Now()) })
	a.recordStatus(observed)
	actions := plan.Compute(plan.Input{
		Pod: pod, Observed: observed, Probes: a.probes, Definitions: plan.Define(pod), Actuated: a.actuated,
		RestartAllContainers: plan.ShouldAllContainersRestart(pod, observed, nil),
	})
	a.asTheKubelet(actions.ContainersToKill)
	result := a.executor.SyncPod(ctx, plan.SyncRequest{Pod: pod, Observed: observed, Actions: actions, Backoff: a.backoff, Actuated: a.actuated})
	a.keepActuated(observed)
	for _, r := range result.Results {
		brief, message := "", ""
		if r.Err != nil {
			brief, message = r.Err.Error(), r.Message
		}
		a.runtime.Record("Result", r.Target, "%s %s %q until=%d", r.Action, brief, message, unix(r.BackoffUntil))
	}
	if result.SyncError != nil {
		a.runtime.Record("Result", "", "sync failed")
	}
}

// keepActuated forgets what containers were given that do not run any more.
// (runtime/podworker: keepActuated)
func (a *Agent) keepActuated(observed *plan.PodStatus) {
	maps.DeleteFunc(a.actuated, func(id string, _ plan.Resources) bool {
		return !slices.ContainsFunc(observed.Containers, func(c plan.ContainerStatus) bool {
			return c.ID == id && c.State == plan.ContainerRunning
		})
	})
}

// Terminate is a pass over a pod that terminates. (runtime/podworker: terminate)
func (a *Agent) Terminate(ctx context.Context, pod *corev1.Pod) {
	a.grace, _ = plan.TerminationGrace(a.grace, pod.DeletionGracePeriodSeconds, nil, pod.Spec.TerminationGracePeriodSeconds)
	observed, err := a.client.PodStatus(ctx, pod.UID)
	if err != nil {
		a.runtime.Record("ObserveFailed", "", "")
		return
	}
	a.recordStatus(observed)
	_, err = a.executor.KillPod(ctx, plan.KillRequest{
		Pod: pod, Observed: observed, Trigger: v1alpha1.TriggerTermination,
		Override: &plan.Grace{Seconds: a.grace, Source: v1alpha1.GraceSourceDeletion},
	})
	a.runtime.Record("Result", "", "killed=%t %v", err == nil, err)
}

// CollectGarbage collects what is too many, with the kubelet's policy, and what a pod
// that is gone leaves on the disk. (runtime/shim/garbage.go)
func (a *Agent) CollectGarbage(ctx context.Context, pod *corev1.Pod, gone bool) {
	err := a.executor.CollectGarbage(ctx, executor.GarbageOptions{
		List:           func(ctx context.Context) (executor.Garbage, error) { return a.garbage(ctx, pod) },
		ContentRemoved: func(types.UID) bool { return gone },
		AllKnown:       true,
		Policy:         executor.DefaultGarbagePolicy(),
	})
	if gone {
		err = errors.Join(err, a.dirs.Remove(ctx, poddir.IdentityOf(pod)))
	}
	a.runtime.Record("Result", "", "collected=%t", err == nil)
}

func (a *Agent) garbage(ctx context.Context, pod *corev1.Pod) (executor.Garbage, error) {
	observed, err := a.client.PodStatus(ctx, pod.UID)
	if err != nil {
		return executor.Garbage{}, err
	}
	var garbage executor.Garbage
	for _, c := range observed.Containers {
		garbage.Containers = append(garbage.Containers, executor.GarbageContainer{
			ID: c.ID, Name: c.Name, SandboxID: c.SandboxID, PodUID: pod.UID, PodName: pod.Name, PodNamespace: pod.Namespace,
			State: c.State, CreatedAt: c.CreatedAt,
		})
	}
	for _, s := range observed.Sandboxes {
		garbage.Sandboxes = append(garbage.Sandboxes, executor.GarbageSandbox{
			ID: s.ID, PodUID: pod.UID, Ready: s.State == plan.SandboxReady, CreatedAt: s.CreatedAt,
		})
	}
	return garbage, nil
}

// SetKillOrder says in which order the kubelet killed in the step that comes: it
// takes the kills of a sync from a map.
func (a *Agent) SetKillOrder(names []string) { a.killOrder = names }

// Reordered is how many plans had another order of kills than the kubelet.
func (a *Agent) Reordered() int { return a.reordered }

// asTheKubelet puts kills into the order that the kubelet's map had; what the
// kubelet did not kill stays behind.
func (a *Agent) asTheKubelet(kills []plan.Kill) {
	position := func(k plan.Kill) int {
		if at := slices.Index(a.killOrder, k.Name); at >= 0 {
			return at
		}
		return len(a.killOrder)
	}
	byPlace := func(x, y plan.Kill) int { return cmp.Compare(position(x), position(y)) }
	if !slices.IsSortedFunc(kills, byPlace) {
		a.reordered++
		slices.SortStableFunc(kills, byPlace)
	}
}

// recordStatus records what the agent believes of the pod.
func (a *Agent) recordStatus(s *plan.PodStatus) {
	for _, sandbox := range s.Sandboxes {
		a.runtime.Record("Observed", "", "sandbox %s attempt=%d SANDBOX_%s", sandbox.ID, sandbox.Attempt, sandbox.State)
	}
	for _, c := range s.Containers {
		a.runtime.Record("Observed", c.Name, "%s %s exit=%d %s restarts=%d created=%d started=%d finished=%d image=%s %s %s message=%s",
			c.ID, c.State, c.ExitCode, c.Reason, c.RestartCount, unix(c.CreatedAt), unix(c.StartedAt), unix(c.FinishedAt),
			c.Image, c.ImageID, c.ImageRef, fakecri.Digest(c.Message))
	}
	a.runtime.Record("Observed", "", "ips=%q", s.IPs)
}

func unix(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// podDir is the pods' place on the node, but for the resolver configuration, which is
// this machine's. There are no cgroups.
type podDir struct {
	*poddir.Manager
	volumes *volume.Manager
}

func newPodDir(root string) (podDir, error) {
	volumes, volumesErr := volume.New(volume.Config{RootDir: filepath.Join(root, "pods")})
	cgroups, cgroupsErr := podcgroup.New(podcgroup.Config{})
	if err := errors.Join(volumesErr, cgroupsErr); err != nil {
		return podDir{}, fmt.Errorf("make the pods' place: %w", err)
	}
	dirs, err := poddir.New(poddir.Config{LogRoot: filepath.Join(root, "logs"), NodeName: "node"}, volumes, cgroups)
	if err != nil {
		return podDir{}, fmt.Errorf("make the pods' place: %w", err)
	}
	return podDir{dirs, volumes}, nil
}

// startVolumes runs the loop of the volumes until the next restart or the end of ctx.
func (a *Agent) startVolumes(ctx context.Context, dirs podDir) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = dirs.volumes.Run(ctx)
	}()
	a.stopVolumes = func() {
		cancel()
		<-done
	}
}

// DNS implements cri.PodDir.
func (podDir) DNS(*corev1.Pod) (poddir.DNSConfig, error) { return poddir.DNSConfig{}, nil }
