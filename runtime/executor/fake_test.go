// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/fakecri"
	"github.com/managedworkload/managedworkload/hack/recordings"
	"github.com/managedworkload/managedworkload/runtime/images"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

type (
	// entry is one line of a trace, in the words of the conformance vectors.
	entry         = recordings.Entry
	fakeContainer = fakecri.Container
	fakeSandbox   = fakecri.Sandbox
)

// errorOf makes the error that a kind of the vectors stands for.
var errorOf = fakecri.ErrorOf

// fakeRuntime is the vectors' runtime as the executor sees one, and takes its
// events and records.
type fakeRuntime struct {
	*fakecri.Recorded
	// removed: the runtime has no container any more.
	removed      atomic.Bool
	start        time.Time
	onRunSandbox func()
	// stopError, if set, is why a container cannot be stopped now.
	stopError func(id string) error
	// mounted are the images of volumes, by container and volume.
	mounted map[string]map[string]string

	mu       sync.Mutex
	kills    []v1alpha1.KillRecord // in the order they were reported
	progress []plan.KillProgress
}

func newFakeRuntime() *fakeRuntime {
	return &fakeRuntime{Recorded: fakecri.NewRecorded(map[string]recordings.Hook{}), start: time.Now()}
}

func (f *fakeRuntime) ops(op string) []entry { return recordings.Only(f.Trace(), op) }

// observed is what a fresh look at the runtime would report.
func (f *fakeRuntime) observed() *plan.PodStatus {
	observed := &plan.PodStatus{}
	observed.Containers, observed.Sandboxes = f.Observed()
	if len(observed.Sandboxes) > 0 && observed.Sandboxes[0].State == plan.SandboxReady {
		observed.IPs = sandboxIPs(&observed.Sandboxes[0])
	}
	return observed
}

func (f *fakeRuntime) PodStatus(context.Context, types.UID) (*plan.PodStatus, error) {
	return f.observed(), nil
}

func (f *fakeRuntime) RunSandbox(ctx context.Context, pod *corev1.Pod, attempt uint32) (string, error) {
	if f.onRunSandbox != nil {
		f.onRunSandbox()
	}
	mode := runtimeapi.NamespaceMode_POD
	if pod.Spec.HostNetwork {
		mode = runtimeapi.NamespaceMode_NODE
	}
	out, err := f.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: pod.Name, Namespace: pod.Namespace, Uid: string(pod.UID), Attempt: attempt},
		Linux: &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
			NamespaceOptions: &runtimeapi.NamespaceOption{Network: mode},
		}},
	}})
	return out.GetPodSandboxId(), err
}

func (f *fakeRuntime) SandboxStatus(ctx context.Context, id string) (plan.SandboxStatus, error) {
	if err := ctx.Err(); err != nil {
		return plan.SandboxStatus{}, errorOf("DeadlineExceeded")
	}
	if _, err := f.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id}); err != nil {
		return plan.SandboxStatus{}, err
	}
	_, sandboxes := f.Observed()
	return sandboxes[slices.IndexFunc(sandboxes, func(s plan.SandboxStatus) bool { return s.ID == id })], nil
}

func (f *fakeRuntime) StopSandbox(ctx context.Context, id string) error {
	_, err := f.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
	return err
}

func (f *fakeRuntime) RemoveSandbox(ctx context.Context, id string) error {
	_, err := f.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id})
	return err
}

func (f *fakeRuntime) CreateContainer(ctx context.Context, _ *corev1.Pod, c *corev1.Container, opts plan.CreateOptions) (string, error) {
	f.mu.Lock()
	if f.mounted == nil {
		f.mounted = map[string]map[string]string{}
	}
	f.mounted[c.Name] = opts.VolumeImages
	f.mu.Unlock()
	out, err := f.Recorded.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId: opts.SandboxID,
		Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: c.Name, Attempt: uint32(opts.Attempt)}, Image: &runtimeapi.ImageSpec{Image: c.Image},
		},
		SandboxConfig: &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Attempt: opts.SandboxAttempt}},
	})
	return out.GetContainerId(), err
}

func (f *fakeRuntime) StartContainer(ctx context.Context, id string) error {
	_, err := f.Recorded.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: id})
	return err
}

func (f *fakeRuntime) StopContainer(ctx context.Context, id string, timeout int64) error {
	if f.stopError != nil {
		if err := f.stopError(id); err != nil {
			f.Note("StopContainer", recordings.Entry{"container": strings.TrimSuffix(id, "-id"), "timeout": float64(timeout)})
			return err
		}
	}
	_, err := f.Recorded.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: timeout})
	return err
}

func (f *fakeRuntime) RemoveContainer(ctx context.Context, id string) error {
	_, err := f.Recorded.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: id})
	return err
}

func (f *fakeRuntime) ContainerStatus(ctx context.Context, id string) (plan.ContainerStatus, error) {
	if f.removed.Load() {
		return plan.ContainerStatus{}, errorOf("NotFound")
	}
	if _, err := f.Recorded.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id}); err != nil {
		return plan.ContainerStatus{}, err
	}
	containers, sandboxes := f.Observed()
	s := containers[slices.IndexFunc(containers, func(c plan.ContainerStatus) bool { return c.ID == id })]
	if s.SandboxID == "" && len(sandboxes) > 0 {
		s.SandboxID = sandboxes[0].ID
	}
	return s, nil
}

func (f *fakeRuntime) ExecSync(ctx context.Context, id string, cmd []string, timeout time.Duration) ([]byte, []byte, int32, error) {
	out, err := f.RunHook(ctx, id, cmd, timeout)
	return out, nil, 0, err
}

func (f *fakeRuntime) ImageRef(_ context.Context, image string) (string, error) {
	if f.Images[image] {
		return image, nil
	}
	return "", nil
}

func (f *fakeRuntime) PullImage(ctx context.Context, image string, _ *corev1.Pod, _ *images.Login) (string, error) {
	out, err := f.Recorded.PullImage(ctx, &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: image}})
	return out.GetImageRef(), err
}

// Event records an event.
func (f *fakeRuntime) Event(pod *corev1.Pod, fieldPath, eventtype, reason, message string) {
	e := entry{"fieldPath": fieldPath, "type": eventtype, "reason": reason, "message": message, "object": pod.Name}
	if _, name, ok := strings.Cut(fieldPath, "{"); ok {
		e["container"] = strings.TrimSuffix(name, "}")
	} else if name, ok := strings.CutPrefix(fieldPath, "implicitly required container "); ok {
		e["container"] = name
	}
	f.Note("Event", e)
}

// Kill keeps the records of kills.
func (f *fakeRuntime) Kill(_ types.UID, kill plan.KillProgress) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kills = append(f.kills, kill.Record)
	f.progress = append(f.progress, kill)
}

// lastRecords are the records as they were reported last, by ID.
func (f *fakeRuntime) lastRecords() []v1alpha1.KillRecord {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := map[string]v1alpha1.KillRecord{}
	for _, rec := range f.kills {
		last[rec.ID] = rec
	}
	return slices.SortedFunc(maps.Values(last), func(a, b v1alpha1.KillRecord) int {
		return strings.Compare(a.ContainerID+a.ID, b.ContainerID+b.ID)
	})
}

// recordingHooks records where hooks begin and end.
type recordingHooks struct {
	hookRunner
	f *fakeRuntime
}

func (h *recordingHooks) Run(ctx context.Context, id string, pod *corev1.Pod, c *corev1.Container,
	hook *corev1.LifecycleHandler) (string, error) {
	which := "postStart"
	if c.Lifecycle != nil && hook == c.Lifecycle.PreStop {
		which = "preStop"
	}
	kind := podspec.HandlerName(hook)
	if hook.Exec == nil && kind == "exec" {
		kind = "invalid"
	}
	h.f.Note("HookStart", entry{"container": c.Name, "id": id, "hook": which, "kind": kind})
	message, err := h.hookRunner.Run(ctx, id, pod, c, hook)
	e := entry{"container": c.Name, "id": id, "hook": which, "error": "", "message": message}
	if err != nil {
		e["error"] = err.Error()
	}
	h.f.Note("HookEnd", e)
	return message, err
}

// override is a grace period that replaces others, nil if there is none.
func override(seconds *int64) *plan.Grace {
	if seconds == nil {
		return nil
	}
	return &plan.Grace{Seconds: *seconds, Source: v1alpha1.GraceSourceOverride}
}

// killApp decides about the kill of the container app.
func killApp(pod *corev1.Pod, f *fakeRuntime, why plan.Kill) plan.Kill {
	status := &plan.ContainerStatus{ID: "app-id", Name: "app"}
	if c := f.Find("app-id"); c != nil {
		status = &c.ContainerStatus
	}
	return plan.DecideKill(pod, status, why, nil, plan.AllDifferences())
}

// newFakeExecutor returns a real executor over the fake runtime, as production
// has it.
func newFakeExecutor(f *fakeRuntime) *Executor {
	return newExecutorWith(f, plan.AllDifferences())
}

// newKubeletExecutor returns one that does what the kubelet does.
func newKubeletExecutor(f *fakeRuntime) *Executor {
	return newExecutorWith(f, plan.Differences{})
}

func newExecutorWith(f *fakeRuntime, differences plan.Differences) *Executor {
	e := New(Config{
		Differences: differences,
		Runtime:     f, Events: f, Kills: f, HTTP: f, RuntimeName: "fakeRuntime",
	})
	e.hooks = &recordingHooks{hookRunner: e.hooks, f: f}
	return e
}
