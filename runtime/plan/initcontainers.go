// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// initScan is the state of one scan of the init containers.
type initScan struct {
	// initialized: the main containers may start.
	initialized bool
	// passed: a later init container, or a main one, has run, so all before it
	// were initialized once.
	passed bool
	// ran: a main container has run in this sandbox, so that an init container of which
	// there is nothing has completed.
	ran bool
}

// initContainers decides about the init containers and returns whether the main
// containers may be looked at. They are scanned from the last to the first,
// because the dead ones of the early ones may have been removed: the last one
// with a status shows how far the initialization has come.
// (kubelet kuberuntime_container.go:computeInitContainerActions)
func (p *planner) initContainers() bool {
	if len(p.Pod.Spec.InitContainers) == 0 {
		return true
	}
	running := p.mainContainerRuns()
	scan := initScan{initialized: running, passed: running, ran: p.initializedHere()}
	defer p.inSpecOrder()
	for i := range slices.Backward(p.Pod.Spec.InitContainers) {
		p.initContainer(i, &scan)
		if p.actions.KillPod {
			return false
		}
	}
	if !scan.passed {
		p.continueWith(0, &scan, true)
	}
	return scan.initialized
}

// mainContainerRuns is whether a main container was created or runs, in this sandbox. While none
// does, the main containers wait for sidecars.
func (p *planner) mainContainerRuns() bool {
	for i := range p.Pod.Spec.Containers {
		s := p.here(p.Pod.Spec.Containers[i].Name)
		if s != nil && (s.State == ContainerCreated || s.State == ContainerRunning) {
			return true
		}
	}
	return false
}

func (p *planner) initContainer(i int, scan *initScan) {
	c := &p.Pod.Spec.InitContainers[i]
	s := p.here(c.Name)
	switch {
	case p.UnderWay[c.Name]: // it ran, and runs again soon
	case p.keepsOff(c) && (s == nil || s.State != ContainerRunning):
		p.stoppedSidecar(i, s, scan)
		return
	case s == nil:
		p.missingInit(i, scan)
		return
	case scan.passed && !podspec.IsSidecar(c):
		return
	case s.State == ContainerCreated:
		// A start that failed; without another one it would stay that way.
		p.startInit(i)
	case podspec.IsSidecar(c):
		p.sidecar(i, s, scan)
	default:
		p.plainInitContainer(i, s, scan)
	}
	scan.passed = true
}

// missingInit is about an init container of which there is nothing: it did not run yet, or it ran
// once and its remains are gone.
func (p *planner) missingInit(i int, scan *initScan) {
	switch {
	case podspec.IsSidecar(&p.Pod.Spec.InitContainers[i]):
		if scan.passed || scan.ran {
			p.startInit(i)
		}
	case scan.ran && !scan.passed:
		p.initialized(i, scan, false)
	}
	scan.passed = scan.passed || scan.ran
}

func (p *planner) sidecar(i int, s *ContainerStatus, scan *initScan) {
	switch s.State {
	case ContainerRunning:
		p.runningSidecar(i, s, scan)
	case ContainerExited:
		p.startInit(i)
	default: // Created, Unknown, or a state that is not one.
		p.restartUnknownInit(i, s)
	}
}

// runningSidecar lets the next init container start when this one has started,
// and restarts it if a rule says so.
func (p *planner) runningSidecar(i int, s *ContainerStatus, scan *initScan) {
	f := p.candidate(&p.Pod.Spec.InitContainers[i], s)
	started := sidecarStarted(f)
	if started {
		p.initialized(i, scan, !scan.passed)
	}
	if rule := p.ruleFor(sidecarRules, f, started); rule != nil {
		p.kill(s, rule.kill(f))
		if !rule.stays {
			p.startInit(i)
		}
	} else if started && sidecarMayResize(f) {
		p.keep(f)
	}
}

// keepsOff is whether a request keeps a sidecar stopped. The containers after it do as if it had
// started.
func (p *planner) keepsOff(c *corev1.Container) bool { return podspec.IsSidecar(c) && p.stops(c.Name) }

// stoppedSidecar leaves a sidecar alone that a request keeps stopped. One that ran in this sandbox
// shows that those before it were initialized; one that did not is passed over.
func (p *planner) stoppedSidecar(i int, s *ContainerStatus, scan *initScan) {
	if s == nil {
		return
	}
	if s.State == ContainerUnknown {
		p.killUnknown("Init container", s)
	}
	p.initialized(i, scan, !scan.passed)
	scan.passed = true
}

// initialized continues with the next init container, or to the main ones.
func (p *planner) initialized(i int, scan *initScan, first bool) {
	p.continueWith(i+1, scan, first)
}

// continueWith starts the init container with that number, if it is the first that is looked at,
// or the next one that is not kept off; without one it continues to the main containers.
func (p *planner) continueWith(i int, scan *initScan, first bool) {
	if next := p.initAfter(i); next == len(p.Pod.Spec.InitContainers) {
		scan.initialized = true
	} else if first {
		p.startInit(next)
	}
}

// initAfter is the number of the first init container from i on that no request keeps off; where
// there is none, it is how many there are.
func (p *planner) initAfter(i int) int {
	for i < len(p.Pod.Spec.InitContainers) && p.keepsOff(&p.Pod.Spec.InitContainers[i]) {
		i++
	}
	return i
}

func (p *planner) plainInitContainer(i int, s *ContainerStatus, scan *initScan) {
	c := &p.Pod.Spec.InitContainers[i]
	switch s.State {
	case ContainerRunning:
		p.runningInitContainer(i, s)
	case ContainerExited:
		switch {
		case p.owes(c.Name): // its kill is no end of its work, whatever the exit code
			p.startInit(i)
		case !initContainerFailed(s):
			p.initialized(i, scan, true)
		case shouldBeRestarted(p.Pod, c, s):
			p.startInit(i)
		default:
			p.initFailed(c)
		}
	default: // Created, Unknown, or a state that is not one.
		p.unknownInit(i, s)
	}
}

// runningInitContainer looks at the resources of an init container that is to
// end, and at nothing else.
func (p *planner) runningInitContainer(i int, s *ContainerStatus) {
	f := p.candidate(&p.Pod.Spec.InitContainers[i], s)
	rule := p.ruleFor(initRules, f, true)
	if rule == nil {
		p.keep(f)
		return
	}
	p.kill(s, rule.kill(f))
	p.startInit(i)
}

// unknownInit restarts a plain init container of unknown state, unless it is
// never restarted: an unknown state counts as a failure.
func (p *planner) unknownInit(i int, s *ContainerStatus) {
	if c := &p.Pod.Spec.InitContainers[i]; !restartsWhenKilled(p.Pod, c) {
		p.initFailed(c)
		return
	}
	p.restartUnknownInit(i, s)
}

func (p *planner) restartUnknownInit(i int, s *ContainerStatus) {
	p.killUnknown("Init container", s)
	p.startInit(i)
}

// initFailed ends a pod whose initialization failed for good.
func (p *planner) initFailed(c *corev1.Container) {
	p.finish(fmt.Sprintf("Init container %s failed and is not restarted", c.Name))
}

// initContainerFailed is whether an init container that exited has failed; one
// that ran out of memory has, whatever its exit code.
// (kubelet helpers.go:isInitContainerFailed)
func initContainerFailed(s *ContainerStatus) bool {
	return s.Reason == "OOMKilled" || s.ExitCode != 0
}
