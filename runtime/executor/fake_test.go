// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/recordings"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// entry is one line of a trace, in the words of the conformance vectors.
type entry = recordings.Entry

// fakeRuntime records every call that changes something, with the virtual time
// at which it was made, and answers by script.
type fakeRuntime struct {
	mu    sync.Mutex
	start time.Time
	trace []entry

	containers []*fakeContainer // newest first
	sandboxes  []*fakeSandbox   // newest first
	hooks      map[string]recordings.Hook
	images     map[string]bool
	kills      []v1alpha1.KillRecord // in the order they were told
	// failures by what they are about
	pullError, createError, startError map[string]string
	runSandboxError, sandboxStatusErr  string
	onRunSandbox                       func()
	// callSeconds is how long a call takes, by its name, unless it is cancelled.
	callSeconds map[string]float64
	// sandboxKills makes StopSandbox kill what is left in the sandbox, as
	// containerd does.
	sandboxKills bool
	// script of containers that are created later
	scriptFor func(name string, attempt int) fakeContainer
}

type fakeContainer struct {
	plan.ContainerStatus
	stopSeconds            float64
	stopError, removeError string
	stopExitCode           int32
	// sameExitCode makes it exit with stopExitCode also when it left by force.
	sameExitCode bool
	// ignoresTerm makes it leave by force only.
	ignoresTerm bool
	oomKilled   bool
	// runsOn: StopContainer succeeds and changes nothing.
	runsOn  bool
	stopped chan struct{}
}

type fakeSandbox struct {
	plan.SandboxStatus
	stopError string
}

func newFakeRuntime() *fakeRuntime {
	return &fakeRuntime{start: time.Now()}
}

// errorOf makes the error that a kind of the vectors stands for.
func errorOf(kind string) error {
	switch kind {
	case "":
		return nil
	case "NotFound":
		return status.Error(codes.NotFound, "container not found")
	case "Unknown":
		return status.Error(codes.Unknown, "runtime exploded")
	case "DeadlineExceeded":
		return status.Error(codes.DeadlineExceeded, "context deadline exceeded")
	case "Unavailable":
		return status.Error(codes.Unavailable, "connection refused")
	case "PlainNotFound":
		return errors.New("container not found")
	case "Plain":
		return errors.New("plain failure")
	default:
		return fmt.Errorf("no error kind %q", kind)
	}
}

func (f *fakeRuntime) record(op string, e entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e["op"] = op
	e["t"] = time.Since(f.start).Seconds()
	f.trace = append(f.trace, e)
}

func (f *fakeRuntime) ops(op string) []entry {
	f.mu.Lock()
	defer f.mu.Unlock()
	return recordings.Only(f.trace, op)
}

func (f *fakeRuntime) find(id string) *fakeContainer {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.containers {
		if c.ID == id {
			return c
		}
	}
	return nil
}

func (f *fakeRuntime) nameOf(id string) string {
	if c := f.find(id); c != nil {
		return c.Name
	}
	return ""
}

// observed is what a fresh look at the runtime would report.
func (f *fakeRuntime) observed() *plan.PodStatus {
	f.mu.Lock()
	defer f.mu.Unlock()
	observed := &plan.PodStatus{}
	for _, s := range f.sandboxes {
		observed.Sandboxes = append(observed.Sandboxes, s.SandboxStatus)
	}
	for i, s := range f.sandboxes {
		if i == 0 && s.State == plan.SandboxReady {
			observed.IPs = sandboxIPs(&s.SandboxStatus)
		}
	}
	for _, c := range f.containers {
		observed.Containers = append(observed.Containers, c.ContainerStatus)
	}
	return observed
}

func (f *fakeRuntime) ContainerStatus(_ context.Context, id string) (plan.ContainerStatus, error) {
	c := f.find(id)
	if c == nil {
		return plan.ContainerStatus{}, fmt.Errorf("container %q not found", id)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	st := c.ContainerStatus
	if st.SandboxID == "" && len(f.sandboxes) > 0 {
		st.SandboxID = f.sandboxes[0].ID
	}
	return st, nil
}

func (f *fakeRuntime) ExecSync(ctx context.Context, id string, cmd []string, timeout time.Duration) ([]byte, []byte, int32, error) {
	words := make([]any, len(cmd))
	for i := range cmd {
		words[i] = cmd[i]
	}
	f.record("ExecSync", entry{"container": f.nameOf(id), "id": id, "cmd": words, "timeoutSeconds": timeout.Seconds()})
	script := f.hooks[strings.Join(cmd, "/")]
	if err := waitFor(ctx, script.Seconds); err != nil {
		return nil, nil, 0, err
	}
	if script.Error != "" {
		return []byte("hook output"), nil, 0, errors.New(script.Error)
	}
	return nil, nil, 0, nil
}

// waitFor waits unless ctx ends earlier.
func waitFor(ctx context.Context, n float64) error {
	if n <= 0 {
		return nil
	}
	until := time.Now().Add(time.Duration(n * float64(time.Second)))
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		if time.Now().Before(until) {
			return ctx.Err()
		}
	}
	return nil
}

// Do answers the requests of httpGet hooks.
func (f *fakeRuntime) Do(req *http.Request) (*http.Response, error) {
	path := strings.TrimPrefix(req.URL.Path, "/")
	_, name, _ := strings.Cut(path, "/")
	f.record("HTTPRequest", entry{"container": name, "method": req.Method, "url": req.URL.String()})
	script := f.hooks[path]
	if err := waitFor(req.Context(), script.Seconds); err != nil {
		return nil, err
	}
	if script.Error == "http-on-https" {
		if req.URL.Scheme == "https" {
			return nil, &url.Error{Op: "Get", URL: req.URL.String(),
				Err: errors.New("http: server gave HTTP response to HTTPS client")}
		}
	} else if script.Error != "" {
		return nil, errors.New(script.Error)
	}
	code := script.HTTPStatus
	if code == 0 {
		code = http.StatusOK
	}
	return &http.Response{StatusCode: code, Body: http.NoBody, Request: req}, nil
}

func (f *fakeRuntime) CreateContainer(ctx context.Context, _ *corev1.Pod, c *corev1.Container, opts plan.CreateOptions) (string, error) {
	kind := f.createError[c.Name]
	f.record("CreateContainer", entry{"container": c.Name, "attempt": float64(opts.Attempt), "sandboxID": opts.SandboxID,
		"sandboxAttempt": float64(opts.SandboxAttempt), "error": kind})
	if err := waitFor(ctx, f.callSeconds["CreateContainer"]); err != nil {
		return "", status.FromContextError(err).Err()
	}
	if kind != "" {
		return "", errorOf(kind)
	}
	created := fakeContainer{}
	if f.scriptFor != nil {
		created = f.scriptFor(c.Name, opts.Attempt)
	}
	created.ID = fmt.Sprintf("%s_%s_%d", opts.SandboxID, c.Name, opts.Attempt)
	created.Name, created.SandboxID, created.RestartCount = c.Name, opts.SandboxID, opts.Attempt
	created.State, created.CreatedAt, created.Image = plan.ContainerCreated, time.Now(), c.Image
	f.mu.Lock()
	defer f.mu.Unlock()
	f.containers = slices.Insert(f.containers, 0, &created)
	return created.ID, nil
}

func (f *fakeRuntime) StartContainer(ctx context.Context, id string) error {
	c := f.find(id)
	kind := f.startError[c.Name]
	f.record("StartContainer", entry{"container": c.Name, "id": id, "error": kind})
	if err := waitFor(ctx, f.callSeconds["StartContainer"]); err != nil {
		return status.FromContextError(err).Err()
	}
	if kind != "" {
		return errorOf(kind)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	c.State, c.StartedAt = plan.ContainerRunning, time.Now()
	return nil
}

func (f *fakeRuntime) RemoveContainer(_ context.Context, id string) error {
	kind, name := "", ""
	if c := f.find(id); c != nil {
		kind, name = c.removeError, c.Name
	}
	f.record("RemoveContainer", entry{"container": name, "id": id, "error": kind})
	if kind != "" {
		return errorOf(kind)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.containers = slices.DeleteFunc(f.containers, func(c *fakeContainer) bool { return c.ID == id })
	return nil
}

// Event records an event.
func (f *fakeRuntime) Event(pod *corev1.Pod, fieldPath, eventtype, reason, message string) {
	e := entry{"fieldPath": fieldPath, "type": eventtype, "reason": reason, "message": message, "object": pod.Name}
	if _, name, ok := strings.Cut(fieldPath, "{"); ok {
		e["container"] = strings.TrimSuffix(name, "}")
	} else if name, ok := strings.CutPrefix(fieldPath, "implicitly required container "); ok {
		e["container"] = name
	}
	f.record("Event", e)
}

// Kill keeps the records of kills.
func (f *fakeRuntime) Kill(_ types.UID, kill plan.KillProgress) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kills = append(f.kills, kill.Record)
}

// lastRecords are the records as they were told last, by ID.
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
	kind := hookKind(hook)
	if hook.Exec == nil && kind == "exec" {
		kind = "invalid"
	}
	h.f.record("HookStart", entry{"container": c.Name, "id": id, "hook": which, "kind": kind})
	message, err := h.hookRunner.Run(ctx, id, pod, c, hook)
	e := entry{"container": c.Name, "id": id, "hook": which, "error": "", "message": message}
	if err != nil {
		e["error"] = err.Error()
	}
	h.f.record("HookEnd", e)
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
	if c := f.find("app-id"); c != nil {
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

// cutHooks are the containers whose preStop hook ran out of time, by ID, with
// the time when it ended here.
func (f *fakeRuntime) cutHooks() map[string]float64 {
	cut := map[string]float64{}
	for _, rec := range f.lastRecords() {
		if rec.PreStop == nil || rec.PreStop.Outcome != v1alpha1.PreStopTimedOut {
			continue
		}
		for _, e := range f.ops("HookEnd") {
			if e.Text("id") == rec.ContainerID {
				cut[rec.ContainerID] = e.Time()
			}
		}
	}
	return cut
}
