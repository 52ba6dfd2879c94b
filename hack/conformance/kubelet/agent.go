// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubelet runs the kubelet's own runtime manager, unchanged, from
// k8s.io/kubernetes/pkg/kubelet/kuberuntime.
package kubelet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	cadvisorapi "github.com/google/cadvisor/info/v1"
	"go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/util/flowcontrol"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/kuberuntime"
	"k8s.io/kubernetes/pkg/kubelet/prober/results"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/hack/fakecri"
)

func init() {
	// The handlers would log, and slow down what reports errors too fast.
	utilruntime.ErrorHandlers = nil
}

// Agent is the kubelet's side of a comparison.
type Agent struct {
	runtime *fakecri.Runtime
	conn    grpc.ClientConnInterface
	root    string
	logs    *Logs

	manager  kuberuntime.KubeGenericRuntime
	backoff  *flowcontrol.Backoff
	pods     *pods
	liveness *verdicts
	startup  *verdicts
	cgroups  *cgroups
	// grace is that of the termination, in seconds; 0 before it.
	grace int64
}

// New starts an agent that keeps its files below root.
func New(ctx context.Context, r *fakecri.Runtime, conn grpc.ClientConnInterface, root string, logs *Logs) (*Agent, error) {
	a := &Agent{runtime: r, conn: conn, root: root, logs: logs, cgroups: &cgroups{FakePodContainerManager: cm.NewFakePodContainerManager()}}
	if err := os.MkdirAll(filepath.Join(root, "logs"), 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the logs: %w", err)
	}
	return a, a.Restart(ctx)
}

// Restart makes the agent forget everything but its files.
func (a *Agent) Restart(ctx context.Context) error {
	runtimes, images := NewServices(a.conn)
	a.logs.current.of = runtimes
	var err error
	a.pods, a.liveness, a.startup = &pods{}, newVerdicts(), newVerdicts()
	a.backoff = newBackoff()
	a.manager, _, err = kuberuntime.NewKubeGenericRuntimeManager(ctx, recorder{a.runtime},
		a.liveness, newVerdicts(), a.startup,
		a.root, filepath.Join(a.root, "logs"), &cadvisorapi.MachineInfo{MemoryCapacity: machineMemory()}, a.pods, 110, files{},
		&node{root: a.root}, a.runtime,
		// The kubelet's defaults of images, but pulls at one time.
		flowcontrol.NewBackOff(10*time.Second, 300*time.Second), false, ptr.To[int32](4), 0, 0,
		string(kubeletconfig.NeverVerifyPreloadedImages), nil, "", "",
		ptr.To(false), true, metav1.Duration{Duration: quotaPeriod}, runtimes, images,
		containerManager{cm.NewFakeContainerManager(), a.cgroups}, a.logs.manager, nil, false, "",
		func() corev1.ResourceList { return nil }, 0.9, kubeletconfig.NoneMemoryReservationPolicy, noTimes{},
		noop.NewTracerProvider(), nil, nil, nil)
	if err != nil {
		return fmt.Errorf("make the kubelet's runtime manager: %w", err)
	}
	return nil
}

func newVerdicts() *verdicts {
	return &verdicts{byID: map[kubecontainer.ContainerID]results.Result{}}
}

// newBackoff is the back-off of crashed containers. (kubelet.go:newCrashLoopBackOff)
func newBackoff() *flowcontrol.Backoff {
	b := flowcontrol.NewBackOff(10*time.Second, 300*time.Second)
	b.HasExpiredFunc = func(at, lastUpdate time.Time, _ time.Duration) bool { return at.Sub(lastUpdate) > 600*time.Second }
	return b
}

// SetProbes takes over what the probes say.
func (a *Agent) SetProbes(byID map[string]fakecri.Verdicts) {
	clear(a.liveness.byID)
	clear(a.startup.byID)
	for id, v := range byID {
		key := kubecontainer.ContainerID{Type: fakecri.Name, ID: id}
		a.liveness.byID[key], a.startup.byID[key] = resultOf[v.Liveness], resultOf[v.Startup]
	}
}

// observe is what the kubelet's PLEG and cache do: list, and read the statuses.
func (a *Agent) observe(ctx context.Context, pod *corev1.Pod) (*kubecontainer.PodStatus, error) {
	status := &kubecontainer.PodStatus{ID: pod.UID, Name: pod.Name, Namespace: pod.Namespace}
	all, err := a.manager.GetPods(ctx, true)
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		if p.ID == pod.UID {
			return a.manager.GetPodStatus(ctx, p)
		}
	}
	return status, nil
}

// Sync is one pass of the kubelet's pod worker. (kubelet.go:SyncPod)
func (a *Agent) Sync(ctx context.Context, pod *corev1.Pod) {
	status, err := a.observe(ctx, pod)
	if err != nil {
		a.runtime.Record("ObserveFailed", "", "")
		return
	}
	a.backoff.GC()
	if a.cgroups.create(pod) {
		if err := a.manager.UpdateActuatedPodLevelResources(pod); err != nil {
			a.runtime.Record("Result", "", "actuated resources of the pod: %v", err)
			return
		}
	}
	a.recordStatus(status)
	restartAll := kubecontainer.ShouldAllContainersRestart(pod, status, nil)
	result := a.manager.SyncPod(ctx, pod, status, nil, a.backoff, restartAll)
	for _, r := range result.SyncResults {
		brief, message := "", ""
		if r.Error != nil {
			brief, message = r.Error.Error(), r.Message
		}
		var until time.Time
		if wait := (*kubecontainer.BackoffError)(nil); errors.As(r.Error, &wait) {
			until = wait.BackoffTime()
		}
		a.runtime.Record("Result", fmt.Sprint(r.Target), "%s %s %q until=%d", r.Action, brief, message, unix(until))
	}
	if result.SyncError != nil {
		a.runtime.Record("Result", "", "sync failed")
	}
}

// Terminate is a pass over a pod that terminates, with the grace period of
// pod_workers.go:calculateEffectiveGracePeriod. (kubelet.go:SyncTerminatingPod)
func (a *Agent) Terminate(ctx context.Context, pod *corev1.Pod) {
	a.pods.terminating = true
	a.shrinkGrace(pod)
	status, err := a.observe(ctx, pod)
	if err != nil {
		a.runtime.Record("ObserveFailed", "", "")
		return
	}
	a.recordStatus(status)
	err = a.manager.KillPod(ctx, pod, kubecontainer.ConvertPodStatusToRunningPod(fakecri.Name, status), &a.grace)
	a.runtime.Record("Result", "", "killed=%t %v", err == nil, err)
}

func (a *Agent) shrinkGrace(pod *corev1.Pod) {
	deletion := pod.DeletionGracePeriodSeconds
	switch {
	case deletion != nil && (a.grace == 0 || *deletion < a.grace):
		a.grace = *deletion
	case deletion == nil && a.grace == 0 && pod.Spec.TerminationGracePeriodSeconds != nil:
		a.grace = *pod.Spec.TerminationGracePeriodSeconds
	}
	a.grace = max(a.grace, 1)
}

// CollectGarbage is the kubelet's, with its policy; gone says that the pod was
// deleted and has ended.
func (a *Agent) CollectGarbage(ctx context.Context, _ *corev1.Pod, gone bool) {
	a.pods.gone = gone
	policy := kubecontainer.GCPolicy{MaxPerPodContainer: 1, MaxContainers: -1}
	err := a.manager.GarbageCollect(ctx, policy, true, false)
	a.runtime.Record("Result", "", "collected=%t", err == nil)
}

// recordStatus records what the agent believes of the pod.
func (a *Agent) recordStatus(s *kubecontainer.PodStatus) {
	for _, sandbox := range s.SandboxStatuses {
		a.runtime.Record("Observed", "", "sandbox %s attempt=%d %s", sandbox.Id, sandbox.Metadata.Attempt, sandbox.State)
	}
	for _, c := range s.ContainerStatuses {
		a.runtime.Record("Observed", c.Name, "%s %s exit=%d %s restarts=%d created=%d started=%d finished=%d image=%s %s %s message=%s",
			c.ID.ID, c.State, c.ExitCode, c.Reason, c.RestartCount, unix(c.CreatedAt), unix(c.StartedAt), unix(c.FinishedAt),
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
