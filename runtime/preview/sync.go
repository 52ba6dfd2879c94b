// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"fmt"
	"slices"
	"strings"

	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// sync lists what a plan comes to, in the order in which it is carried out.
// (executor sync.go:SyncPod)
func (b *builder) sync(a plan.Actions) {
	switch {
	case a.KillPod:
		b.killPod(plan.KillRequest{Pod: b.Pod, Observed: b.Observed, Trigger: a.Trigger, Message: a.Message}, a.Message)
	default:
		b.killContainers(a.ContainersToKill)
		b.reset(a.ContainersToReset)
	}
	if a.CreateSandbox {
		b.step(Step{Action: ActionCreateSandbox, Message: b.sandboxMessage(a)})
	}
	b.start(a)
	b.unaffected(a)
	b.laterNote(a)
	b.backoffNote()
}

func (b *builder) sandboxMessage(a plan.Actions) string {
	if a.Attempt == 0 {
		return "not created yet"
	}
	return fmt.Sprintf("attempt %d", a.Attempt)
}

func (b *builder) killContainers(kills []plan.Kill) {
	for _, k := range kills {
		step := b.killStep(k)
		step.Changed = b.changedFields(k.Name, k.Trigger)
		b.step(step)
		if k.Removed {
			b.step(Step{Action: ActionRemove, Container: k.Name, Kind: KindRemoved, ID: k.ID, Message: "not in the template"})
		}
	}
}

// reset lists what RestartAllContainers kills, at once and without grace, and then removes.
func (b *builder) reset(resets []plan.Reset) {
	for _, r := range resets {
		if k := r.Kill; k != nil {
			b.step(b.killStep(*k))
		}
	}
	for _, r := range resets {
		b.step(Step{Action: ActionRemove, Container: r.Name, Kind: kindOf(b.Pod, r.Name), ID: r.ID, Message: "all containers start over"})
	}
}

// start lists what is started, and before the main containers what is resized.
func (b *builder) start(a plan.Actions) {
	spec := &b.Pod.Spec
	for _, i := range a.EphemeralContainersToStart {
		b.startStep(spec.EphemeralContainers[i].Name, a)
	}
	for _, i := range a.InitContainersToStart {
		b.startStep(spec.InitContainers[i].Name, a)
	}
	b.resize(a)
	for _, i := range a.ContainersToStart {
		b.startStep(spec.Containers[i].Name, a)
	}
}

func (b *builder) startStep(name string, a plan.Actions) {
	message := []string{b.startMessage(name, a)}
	for _, need := range imagesOf(name, a) {
		image, done := b.askedAgain(need), b.volumeDone(need)
		switch image.Use {
		case plan.ImagePull:
			if !done {
				b.pull(name, image.Image)
			}
		case plan.ImageMissing:
			message = append(message, fmt.Sprintf("this fails: container image %q is not present with pull policy of Never", image.Image))
		case plan.ImagePresent, plan.ImagePulled:
		}
	}
	b.step(Step{Action: ActionStart, Container: name, Kind: kindOf(b.Pod, name), Message: strings.Join(message, "; ")})
}

// volumeDone is whether a start before has had the image of the volume: it is pulled once,
// also under Always, whichever containers mount it.
func (b *builder) volumeDone(need plan.ImageNeed) bool {
	if need.Volume == "" {
		return false
	}
	done := slices.Contains(b.volumes, need.Volume)
	b.volumes = append(b.volumes, need.Volume)
	return done
}

func (b *builder) pull(container, image string) {
	b.step(Step{Action: ActionPull, Container: container, Kind: kindOf(b.Pod, container), Message: image})
	b.pulled = append(b.pulled, fullName(image))
}

// imagesOf is what the start of a container does about its images, in this order: those of
// volumes come first.
func imagesOf(name string, a plan.Actions) []plan.ImageNeed {
	var volumes, own []plan.ImageNeed
	for _, need := range a.Images {
		if need.Container != name {
			continue
		}
		if need.Volume == "" {
			own = append(own, need)
		} else {
			volumes = append(volumes, need)
		}
	}
	return append(volumes, own...)
}

// askedAgain is the same after the pulls of the steps before: the executor asks again for
// an image that was absent.
func (b *builder) askedAgain(need plan.ImageNeed) plan.ImageNeed {
	if need.Use == plan.ImagePulled || !slices.Contains(b.pulled, fullName(need.Image)) {
		return need
	}
	if key, named := need.Key(b.Pod, podspec.Container(b.Pod, need.Container)); named {
		again := key.Decide(need.Image)
		need.Use, need.Ref = again.Use, again.Ref
	}
	return need
}

// fullName is the name of an image by which it is pulled.
func fullName(image string) string {
	if name, err := podspec.ImageName(image); err == nil {
		return name
	}
	return image
}

func (b *builder) startMessage(name string, a plan.Actions) string {
	s := b.Observed.Current(name)
	switch {
	case s == nil:
		return "not created yet"
	case a.CreateSandbox:
		return "in the new sandbox"
	case s.State == plan.ContainerExited:
		return fmt.Sprintf("exited with %d", s.ExitCode)
	case s.State == plan.ContainerCreated:
		return "created, never started"
	}
	return "after its kill"
}

// laterNote names the containers of a new sandbox that start later.
func (b *builder) laterNote(a plan.Actions) {
	if !a.CreateSandbox || len(a.InitContainersToStart) == 0 {
		return
	}
	var later []string
	for _, s := range b.out.Kills() {
		if s.Kind != KindRemoved && !b.starts(s.Container) {
			later = append(later, s.Container)
		}
	}
	if len(later) > 0 {
		b.note("Killed now, started again after the init containers: %s.", strings.Join(later, ", "))
	}
}

func (b *builder) starts(name string) bool {
	return slices.ContainsFunc(b.out.Steps, func(s Step) bool { return s.Action == ActionStart && s.Container == name })
}

// backoffNote names the starts that may have to wait.
func (b *builder) backoffNote() {
	if b.Source == SourceAssumed {
		return
	}
	var names []string
	for _, s := range b.out.Steps {
		c := b.Observed.Current(s.Container)
		if s.Action == ActionStart && c != nil && c.State == plan.ContainerExited {
			names = append(names, s.Container)
		}
	}
	if len(names) > 0 {
		b.note("The shim keeps the restart back-off; a start may have to wait for it (%s).", strings.Join(names, ", "))
	}
}
