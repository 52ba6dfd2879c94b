// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// ImageKey is what one pull serves: an image by its name in the template, with the
// policy by which it is pulled.
type ImageKey struct {
	Image  string
	Policy corev1.PullPolicy
}

// ImageKeyOf returns the key of a container's image.
func ImageKeyOf(c *corev1.Container) ImageKey {
	return ImageKey{Image: c.Image, Policy: c.ImagePullPolicy}
}

// Preparation is what has become of an image that a deliberate change needs.
type Preparation struct {
	// Ref is what the runtime calls the image once it is there, and was pulled if its
	// policy asks for that; empty before.
	Ref string
	// Pulled: it was pulled for this change. The start of one that was present asks the
	// runtime again, as any start does.
	Pulled bool
	// Reason is why it is not there: what a container says that waits for its image, or
	// v1alpha1.ReasonPulling; zero while the runtime is asked.
	Reason Reason
}

// ImageWait is a container whose deliberate kill or start waits for an image that it
// starts from or mounts.
type ImageWait struct {
	Container string
	Image     ImageKey
	Reason    Reason
}

// HeldStart is a container that does not run and waits for an image, its own or one that
// the new sandbox needs, or for an object that the new sandbox needs.
type HeldStart struct {
	Container string
	Reason    Reason
}

// awaits is whether a deliberate change of a container waits. It looks for all that is
// missing: images are pulled while objects are waited for.
func (p *planner) awaits(c *corev1.Container) bool {
	lacks := p.lacksObjects(c)
	return p.awaitsImage(c) || lacks
}

// awaitsImage is the one place that decides that a deliberate change waits for an image:
// as long as the runtime does not have what the container starts from and mounts. The
// kubelet kills first.
func (p *planner) awaitsImage(c *corev1.Container) bool {
	if !p.Differences.PullBeforeKill {
		return false
	}
	awaits := false
	for _, key := range ImageKeysOf(p.Pod, c) {
		awaits = p.lacksImage(c, key) || awaits
	}
	return awaits
}

func (p *planner) lacksImage(c *corev1.Container, key ImageKey) bool {
	prepared := p.Prepared[key]
	if prepared.Ref != "" {
		return p.held
	}
	wait := ImageWait{Container: c.Name, Image: key, Reason: prepared.Reason}
	if !slices.Contains(p.actions.Waits, wait) {
		p.actions.Waits = append(p.actions.Waits, wait)
	}
	return true
}

// heldChange keeps a sandbox that the definition would replace, while a container may
// run in it and an image that the new one starts from is not there.
func (p *planner) heldChange(change sandboxVerdict) sandboxVerdict {
	if !change.changed || !p.anyMayRun() {
		return change
	}
	held := false
	for _, c := range p.startedIn(change) {
		held = p.awaits(c) || held
	}
	if p.held = held; !held {
		return change
	}
	newest := &p.Observed.Sandboxes[0]
	return sandboxVerdict{id: newest.ID, attempt: newest.Attempt}
}

// anyMayRun is whether there is something to keep. One in unknown state is killed in any
// case, and one that we did not make is not waited for.
func (p *planner) anyMayRun() bool {
	return slices.ContainsFunc(p.Observed.Containers, func(s ContainerStatus) bool {
		return s.State == ContainerRunning && !Foreign(p.Pod, &s)
	})
}

// startedIn returns what a new sandbox starts, sooner or later.
func (p *planner) startedIn(change sandboxVerdict) []*corev1.Container {
	main := p.startedAnew(change)
	if len(main) == 0 && (p.staysDown(change) || p.anyMainContainerCreated()) {
		return nil
	}
	var containers []*corev1.Container
	for i := p.initAfter(0); i < len(p.Pod.Spec.InitContainers); i = p.initAfter(i + 1) {
		containers = append(containers, &p.Pod.Spec.InitContainers[i])
	}
	for _, i := range main {
		containers = append(containers, &p.Pod.Spec.Containers[i])
	}
	return containers
}

// keep leaves a running container as it is. One that waits for its image, or for the
// images of a new sandbox, gets no other resources either: they are the new one's.
func (p *planner) keep(f candidate) {
	if !p.held && !slices.Contains(p.actions.Kept, f.container.Name) {
		p.update(f)
	}
}

// keepAll notes what runs in a sandbox that waits for images.
func (p *planner) keepAll() {
	p.actions.Kept = nil
	for c := range podspec.InitAndMain(p.Pod) {
		if s := p.Observed.Current(c.Name); s != nil && s.State == ContainerRunning {
			p.actions.Kept = append(p.actions.Kept, c.Name)
		}
	}
}

// holdStarts holds back the starts that replace an instance of another definition, and
// all while the sandbox is to be replaced, until the images are there.
func (p *planner) holdStarts() {
	a := &p.actions
	if a.KillPod {
		a.Kept, a.Held = nil, nil
		return
	}
	if !p.Differences.PullBeforeKill && !p.held {
		return
	}
	if p.held {
		p.keepAll()
		a.KeepsSandbox = true
		a.EphemeralContainersToStart = nil
	}
	a.InitContainersToStart = p.startable(p.Pod.Spec.InitContainers, a.InitContainersToStart)
	a.ContainersToStart = p.startable(p.Pod.Spec.Containers, a.ContainersToStart)
}

// startable returns those of the starts that need not wait. Where nothing runs, missing
// objects are for the start to find.
func (p *planner) startable(containers []corev1.Container, starts []int) []int {
	return slices.DeleteFunc(starts, func(i int) bool {
		c := &containers[i]
		if !p.held && !(p.outdated(c) && p.awaitsImage(c)) {
			return false
		}
		p.actions.Held = append(p.actions.Held, HeldStart{Container: c.Name, Reason: p.holds(c)})
		return true
	})
}

// holds returns why a start is held back: its own image, else the first one missing.
func (p *planner) holds(c *corev1.Container) Reason {
	for _, w := range p.actions.Waits {
		if w.Container == c.Name {
			return w.Reason
		}
	}
	if len(p.actions.Waits) == 0 {
		return p.actions.MissingWaits[0].Reason
	}
	return p.actions.Waits[0].Reason
}

// outdated is whether the newest instance of a container was made from another
// definition, or before the restart that was requested.
func (p *planner) outdated(c *corev1.Container) bool {
	s := p.Observed.Current(c.Name)
	return s != nil && (DefinitionChanged(p.confirmed(), s) || RestartRequested(p.confirmed(), s) || p.Asked[c.Name].restarts(s))
}

// replaced is whether the start of a container is one that a deliberate change asked
// for, and none that brings the same instance back.
func (p *planner) replaced(c *corev1.Container) bool {
	s := p.Observed.Current(c.Name)
	if s == nil || p.outdated(c) || len(p.Observed.Sandboxes) == 0 {
		return true
	}
	newest := &p.Observed.Sandboxes[0]
	return s.SandboxID != newest.ID || podDefinitionChanged(p.confirmed(), newest) ||
		!p.Unconfirmed && networkOf(newest) != networkFor(p.Pod) || resizeRequired(p.candidate(c, s))
}

// ImagesInUse returns the keys of the images whose preparation still counts: those of
// containers that a deliberate change has still to replace.
func ImagesInUse(in Input) map[ImageKey]bool {
	p := planner{Input: in}
	keys := map[ImageKey]bool{}
	for c := range podspec.InitAndMain(in.Pod) {
		if p.replaced(c) {
			for _, key := range ImageKeysOf(in.Pod, c) {
				keys[key] = true
			}
		}
	}
	return keys
}
