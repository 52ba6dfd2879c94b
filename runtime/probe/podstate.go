// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// podState is what the manager knows about one pod. All of it is guarded by the
// manager's lock.
type podState struct {
	manager     *Manager
	uid         types.UID
	pod         *corev1.Pod
	ip          string
	terminating bool
	ended       bool // the pod's phase is terminal
	restartsAll bool // all containers are about to be restarted
	workers     map[workerKey]*worker
	containers  map[string]container // by name
	results     map[string]*plan.ProbeResults
	failures    map[string]*failure
}

type workerKey struct {
	container string
	kind      kind
}

// container is the current instance of a container.
type container struct {
	id         string
	running    bool
	exited     bool
	exitCode   int32
	startedAt  time.Time
	wasStarted bool // as the last published status says
}

type failure struct {
	kind    kind
	message string
	count   int
}

func newPodState(m *Manager, uid types.UID) *podState {
	return &podState{
		manager:    m,
		uid:        uid,
		workers:    map[workerKey]*worker{},
		containers: map[string]container{},
		results:    map[string]*plan.ProbeResults{},
		failures:   map[string]*failure{},
	}
}

// update returns whether a verdict changed that the caller may not know of.
func (s *podState) update(pod *corev1.Pod, observed *plan.PodStatus, previous *corev1.PodStatus) (changed bool) {
	known := s.pod != nil
	s.pod = pod
	s.containers = map[string]container{}
	s.ip = podIP(observed, previous)
	s.ended = previous != nil && (previous.Phase == corev1.PodFailed || previous.Phase == corev1.PodSucceeded)
	s.restartsAll = observed != nil && plan.ShouldAllContainersRestart(pod, observed, nil)
	if pod.DeletionTimestamp != nil {
		s.terminating = true
	}
	wanted := map[workerKey]bool{}
	for _, c := range probed(pod) {
		s.containers[c.Name] = instance(c.Name, observed, previous)
		for _, k := range kinds {
			if k.spec(c) != nil && s.mayProbe(c, k) {
				key := workerKey{c.Name, k}
				wanted[key] = true
				changed = s.worker(key, c).observe(s.containers[c.Name], known) || changed
			}
		}
	}
	for key, w := range s.workers {
		if !wanted[key] {
			s.drop(key, w)
		}
	}
	// Only now is it known which containers have started.
	for _, w := range s.workers {
		w.adjust()
	}
	return changed
}

// worker returns the worker of the key with the container's current probe.
func (s *podState) worker(key workerKey, c *corev1.Container) *worker {
	w := s.workers[key]
	if w == nil {
		w = newWorker(s, key)
		s.workers[key] = w
	}
	w.define(c)
	return w
}

// mayProbe: the end of a pod stops what could kill a main container.
func (s *podState) mayProbe(c *corev1.Container, k kind) bool {
	return !s.terminating || k == readiness || podspec.IsSidecar(c)
}

func (s *podState) terminate() {
	s.terminating = true
	if s.pod == nil {
		return
	}
	for _, c := range probed(s.pod) {
		for _, k := range kinds {
			key := workerKey{c.Name, k}
			if w := s.workers[key]; w != nil && !s.mayProbe(c, k) {
				s.drop(key, w)
			}
		}
	}
}

// drop ends a worker for good, with its verdict.
func (s *podState) drop(key workerKey, w *worker) {
	w.stop()
	s.set(w.containerID, key.kind, "")
	delete(s.workers, key)
}

// set records a verdict; an empty one takes it away. It returns whether it is
// another one than before.
func (s *podState) set(id string, k kind, verdict plan.ProbeResult) (changed bool) {
	if id == "" {
		return false
	}
	r := s.results[id]
	if r == nil {
		r = &plan.ProbeResults{}
		s.results[id] = r
	}
	changed = *k.of(r) != verdict
	*k.of(r) = verdict
	if *r == (plan.ProbeResults{}) {
		delete(s.results, id)
	}
	return changed
}

func (s *podState) get(id string, k kind) plan.ProbeResult {
	if r := s.results[id]; r != nil {
		return *k.of(r)
	}
	return ""
}

// hasStarted reports whether a container has started: by its startup probe, by what
// was published about this very instance, or because it has no such probe and
// runs. (prober_manager.go:isContainerStarted)
func (s *podState) hasStarted(name string) bool {
	c := s.containers[name]
	if !c.running {
		return false
	}
	if verdict := s.get(c.id, startup); verdict != "" {
		return verdict == plan.ProbeSuccess
	}
	return c.wasStarted || s.workers[workerKey{name, startup}] == nil
}

// wake has the workers of a container look at it again: it has started.
func (s *podState) wake(name string) {
	for _, k := range kinds {
		if w := s.workers[workerKey{name, k}]; w != nil {
			w.wake()
		}
	}
}

// probed are the containers whose probes run: main ones and sidecars.
func probed(pod *corev1.Pod) []*corev1.Container {
	var out []*corev1.Container
	for i := range pod.Spec.Containers {
		out = append(out, &pod.Spec.Containers[i])
	}
	for i := range pod.Spec.InitContainers {
		if podspec.IsSidecar(&pod.Spec.InitContainers[i]) {
			out = append(out, &pod.Spec.InitContainers[i])
		}
	}
	return out
}

func instance(name string, observed *plan.PodStatus, previous *corev1.PodStatus) container {
	if observed == nil {
		return container{}
	}
	status := observed.Current(name)
	if status == nil {
		return container{}
	}
	return container{
		id:         status.ID,
		running:    status.State == plan.ContainerRunning,
		exited:     status.State == plan.ContainerExited,
		exitCode:   status.ExitCode,
		startedAt:  status.StartedAt,
		wasStarted: wasStarted(status.ID, name, previous),
	}
}

func wasStarted(id, name string, previous *corev1.PodStatus) bool {
	if previous == nil {
		return false
	}
	for _, list := range [][]corev1.ContainerStatus{previous.ContainerStatuses, previous.InitContainerStatuses} {
		for i := range list {
			_, plain, found := strings.Cut(list[i].ContainerID, "://")
			if !found {
				plain = list[i].ContainerID
			}
			if list[i].Name == name && plain == id {
				return list[i].Started != nil && *list[i].Started
			}
		}
	}
	return false
}

// podIP is what probes connect to; on the host network it is the node's, which
// only the published status knows.
func podIP(observed *plan.PodStatus, previous *corev1.PodStatus) string {
	switch {
	case observed != nil && len(observed.IPs) > 0:
		return observed.IPs[0]
	case previous == nil:
		return ""
	case previous.PodIP != "":
		return previous.PodIP
	default:
		return previous.HostIP
	}
}
