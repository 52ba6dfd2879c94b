// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/runtime/images"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// historyNode is a container runtime in memory with one pod, as executor, prober and workers see
// one. It knows what has run where, whoever removed it since.
type historyNode struct {
	mu sync.Mutex
	// uid is the pod's, and spec what its containers do, by name.
	uid   types.UID
	spec  map[string]containerScript
	woken func()

	sandboxes  []plan.SandboxStatus
	containers []plan.ContainerStatus // newest first
	made       int

	// cutAfter is how many calls that change something are left until the shim ends, -1 for
	// none, and power whether the node ends with it. dark: it has ended.
	cutAfter int
	power    bool
	dark     bool
	// failing are the beginnings of calls, such as "RemoveContainer i1", the next of which fails.
	failing map[string]bool

	// completed are the init containers that have completed, by sandbox and name.
	completed map[string]bool
	// ran are the main containers that ever ran, and done those that ended for good.
	ran, done map[string]bool
	// passed are the probes that have succeeded, by container ID and kind of probe.
	passed     map[string]bool
	violations []string

	calls    []string
	lookedAt time.Time
	looks    int
}

// containerScript is what a container does.
type containerScript struct {
	// runs is how long an init container runs; the first of its instances fail.
	runs     time.Duration
	failures int
	// started and ready are when its probes begin to succeed.
	started, ready time.Duration
}

var errDark = errors.New("the node is dark")

// ends is called for each request that changes something, before it does.
func (n *historyNode) ends(method, name string) error {
	n.calls = append(n.calls, fmt.Sprintf("%s %s %s", time.Now().Format("15:04:05"), method, name))
	if n.cutAfter == 0 && !n.dark {
		n.goDark()
	}
	if n.dark {
		n.calls[len(n.calls)-1] += ": dark"
		return errDark
	}
	if n.cutAfter > 0 {
		n.cutAfter--
	}
	for call := range n.failing {
		if strings.HasPrefix(method+" "+name, call) {
			delete(n.failing, call)
			n.calls[len(n.calls)-1] += ": fails"
			return status.Error(codes.Unknown, "the runtime fails")
		}
	}
	return nil
}

// goDark ends the shim, and with power all that runs.
func (n *historyNode) goDark() {
	n.dark, n.cutAfter = true, -1
	if !n.power {
		return
	}
	n.calls = append(n.calls, "power cut")
	for i := range n.sandboxes {
		n.sandboxes[i].State, n.sandboxes[i].Network = plan.SandboxNotReady, nil
	}
	for i := range n.containers {
		if n.containers[i].State == plan.ContainerRunning {
			n.exits(&n.containers[i], 255)
		}
	}
}

// violated notes what must not be.
func (n *historyNode) violated(format string, args ...any) {
	n.violations = append(n.violations, fmt.Sprintf(format, args...))
}

func (n *historyNode) find(id string) *plan.ContainerStatus {
	for i := range n.containers {
		if n.containers[i].ID == id {
			return &n.containers[i]
		}
	}
	return nil
}

func notFound(id string) error { return status.Errorf(codes.NotFound, "%s is not there", id) }

// exits ends a container that runs.
func (n *historyNode) exits(c *plan.ContainerStatus, code int32) {
	c.State, c.ExitCode, c.FinishedAt, c.Reason = plan.ContainerExited, code, time.Now(), "Error"
	if code == 0 {
		c.Reason = "Completed"
	}
	n.calls = append(n.calls, fmt.Sprintf("%s exits with %d", c.ID, code))
	if code == 0 && c.Recorded.Place.Init && !c.Recorded.Place.Sidecar {
		n.completed[c.SandboxID+"/"+c.Name] = true
	}
}

func (n *historyNode) RunSandbox(_ context.Context, pod *corev1.Pod, attempt uint32) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.ends("RunSandbox", fmt.Sprint(attempt)); err != nil {
		return "", err
	}
	n.made++
	s := plan.SandboxStatus{
		ID: fmt.Sprintf("sandbox-%d", n.made), State: plan.SandboxReady, Attempt: attempt, CreatedAt: time.Now(), NetworkNamespace: plan.NetworkPod,
		Network: &plan.SandboxNetwork{IP: "10.0.0.2"}, Hash: plan.HashPod(pod),
	}
	n.sandboxes = slices.Insert(n.sandboxes, 0, s)
	return s.ID, nil
}

func (n *historyNode) SandboxStatus(_ context.Context, id string) (plan.SandboxStatus, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range n.sandboxes {
		if s.ID == id && !n.dark {
			return s, nil
		}
	}
	return plan.SandboxStatus{}, notFound(id)
}

func (n *historyNode) StopSandbox(_ context.Context, id string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.ends("StopSandbox", id); err != nil {
		return err
	}
	n.stopSandbox(id)
	return nil
}

// stopSandbox kills what runs in a sandbox.
func (n *historyNode) stopSandbox(id string) {
	for i := range n.containers {
		if c := &n.containers[i]; c.SandboxID == id && c.State == plan.ContainerRunning {
			n.exits(c, 137)
		}
	}
	for i := range n.sandboxes {
		if n.sandboxes[i].ID == id {
			n.sandboxes[i].State, n.sandboxes[i].Network = plan.SandboxNotReady, nil
		}
	}
}

func (n *historyNode) RemoveSandbox(_ context.Context, id string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.ends("RemoveSandbox", id); err != nil {
		return err
	}
	n.stopSandbox(id)
	n.containers = slices.DeleteFunc(n.containers, func(c plan.ContainerStatus) bool { return c.SandboxID == id })
	n.sandboxes = slices.DeleteFunc(n.sandboxes, func(s plan.SandboxStatus) bool { return s.ID == id })
	return nil
}

func (n *historyNode) CreateContainer(_ context.Context, pod *corev1.Pod, c *corev1.Container, opts plan.CreateOptions) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.ends("CreateContainer", c.Name+" in "+opts.SandboxID); err != nil {
		return "", err
	}
	n.made++
	s := plan.ContainerStatus{
		ID: fmt.Sprintf("%s-%d", c.Name, n.made), Name: c.Name, PodUID: string(pod.UID), SandboxID: opts.SandboxID, Image: c.Image, ImageRef: c.Image,
		State: plan.ContainerCreated, CreatedAt: time.Now(), Hash: plan.HashContainer(c), RestartCount: opts.Attempt,
		Recorded: plan.Recorded{Place: plan.PlaceOf(pod, c.Name), TerminationGracePeriodSeconds: pod.Spec.TerminationGracePeriodSeconds},
	}
	n.containers = slices.Insert(n.containers, 0, s)
	return s.ID, nil
}

func (n *historyNode) StartContainer(_ context.Context, id string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.ends("StartContainer", id); err != nil {
		return err
	}
	c := n.find(id)
	if c == nil {
		return notFound(id)
	}
	n.checkStart(c)
	c.State, c.StartedAt = plan.ContainerRunning, time.Now()
	switch {
	case !c.Recorded.Place.Init:
		n.ran[c.Name] = true
	case !c.Recorded.Place.Sidecar:
		time.AfterFunc(n.spec[c.Name].runs, func() { n.initEnds(id) })
	}
	return nil
}

// initEnds ends an init container by itself.
func (n *historyNode) initEnds(id string) {
	n.mu.Lock()
	if c := n.find(id); c != nil && c.State == plan.ContainerRunning {
		script, code := n.spec[c.Name], int32(0)
		if script.failures > 0 {
			script.failures--
			n.spec[c.Name], code = script, 1
		}
		n.exits(c, code)
	}
	woken := n.woken
	n.mu.Unlock()
	woken()
}

func (n *historyNode) StopContainer(_ context.Context, id string, _ int64) error {
	n.mu.Lock()
	err := n.ends("StopContainer", id)
	n.mu.Unlock()
	if err != nil {
		return err
	}
	time.Sleep(time.Second)
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.find(id)
	switch {
	case n.dark:
		return errDark
	case c == nil:
		return notFound(id)
	case c.State == plan.ContainerRunning:
		n.exits(c, 143)
	}
	return nil
}

func (n *historyNode) RemoveContainer(_ context.Context, id string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.ends("RemoveContainer", id); err != nil {
		return err
	}
	n.containers = slices.DeleteFunc(n.containers, func(c plan.ContainerStatus) bool { return c.ID == id })
	return nil
}

func (n *historyNode) ContainerStatus(_ context.Context, id string) (plan.ContainerStatus, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.dark {
		return plan.ContainerStatus{}, errDark
	}
	if c := n.find(id); c != nil {
		return *c, nil
	}
	return plan.ContainerStatus{}, notFound(id)
}

func (n *historyNode) PodStatus(ctx context.Context, uid types.UID) (*plan.PodStatus, error) {
	if n.spins() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	st := &plan.PodStatus{ID: string(uid)}
	switch {
	case n.dark:
		return nil, errDark
	case uid != n.uid:
		return st, nil
	}
	st.Sandboxes, st.Containers = slices.Clone(n.sandboxes), slices.Clone(n.containers)
	if len(n.sandboxes) > 0 && n.sandboxes[0].State == plan.SandboxReady {
		st.IPs = []string{"10.0.0.2"}
		for _, c := range n.containers {
			if c.SandboxID == n.sandboxes[0].ID {
				st.ActiveContainerIDs = append(st.ActiveContainerIDs, c.ID)
			}
		}
	}
	return st, nil
}

// spins reports whether a worker goes round and round without time passing.
func (n *historyNode) spins() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if now := time.Now(); !now.Equal(n.lookedAt) {
		n.lookedAt, n.looks = now, 0
	}
	if n.looks++; n.looks == maxLooks {
		n.violated("the worker goes round and round")
	}
	return n.looks >= maxLooks
}

// ExecSync answers probes: a command "started" or "ready" succeeds from its time on.
func (n *historyNode) ExecSync(_ context.Context, id string, cmd []string, _ time.Duration) (stdout, stderr []byte, exitCode int32, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.find(id)
	if c == nil || c.State != plan.ContainerRunning || n.dark {
		return nil, nil, 0, notFound(id)
	}
	script := n.spec[c.Name]
	if time.Since(c.StartedAt) < map[string]time.Duration{"started": script.started, "ready": script.ready}[cmd[0]] {
		return nil, nil, 1, nil
	}
	n.passed[id+"/"+cmd[0]] = true
	return nil, nil, 0, nil
}

func (n *historyNode) ImageRef(_ context.Context, image string) (string, error) { return image, nil }

func (n *historyNode) PullImage(_ context.Context, image string, _ *corev1.Pod, _ *images.Login) (string, error) {
	return image, nil
}

func (n *historyNode) Images(_ context.Context, names []string) plan.Images {
	all := plan.Images{}
	for _, name := range names {
		all[name] = name
	}
	return all
}

func (n *historyNode) RecordedPod(context.Context, types.UID) (*corev1.Pod, error) { return nil, nil }

// checkStart is what must hold when a container is started.
func (n *historyNode) checkStart(c *plan.ContainerStatus) {
	for _, other := range n.containers {
		switch {
		case other.State != plan.ContainerRunning:
		case other.Name == c.Name:
			n.violated("%s is started while %s runs", c.ID, other.ID)
		case c.Recorded.Place.Init && !c.Recorded.Place.Sidecar && !other.Recorded.Place.Init:
			n.violated("init container %s is started while %s runs", c.ID, other.ID)
		}
	}
	if c.Recorded.Place.Init {
		return
	}
	if n.done[c.Name] {
		n.violated("%s is started, which had ended for good", c.ID)
	}
	for name, script := range n.spec {
		if strings.HasPrefix(name, "i") && script.runs > 0 && !n.completed[c.SandboxID+"/"+name] {
			n.violated("%s is started before %s has completed in %s", c.ID, name, c.SandboxID)
		}
	}
}
