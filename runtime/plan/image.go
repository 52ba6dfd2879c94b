// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
)

// Images are what the runtime calls the images that it was asked for, by their
// names in the template; empty for one that it does not have.
type Images map[string]string

// ImageUse is what a start does about its image.
type ImageUse string

// What a start does about its image.
const (
	// ImagePresent: the runtime has it.
	ImagePresent ImageUse = "Present"
	// ImagePull: it is pulled.
	ImagePull ImageUse = "Pull"
	// ImagePulled: it was pulled for this start before what ran was killed.
	ImagePulled ImageUse = "Pulled"
	// ImageMissing: the runtime does not have it and it must not be pulled, so that
	// the container cannot start.
	ImageMissing ImageUse = "Missing"
)

// ImageNeed is what the start of one container does about its image. The zero value
// says that the runtime has to be asked.
type ImageNeed struct {
	// Container and Image are the names of the template.
	Container, Image string
	Use              ImageUse
	// Ref is what the runtime calls an image that is present or was pulled.
	Ref string
}

// PresenceMatters is whether the start of a container depends on what the runtime
// has: an image that is always pulled is pulled without asking.
func PresenceMatters(c *corev1.Container) bool { return c.ImagePullPolicy != corev1.PullAlways }

// ImagesToAskFor returns the images of containers about which the runtime is asked.
func ImagesToAskFor(containers iter.Seq[*corev1.Container]) []string {
	var names []string
	for c := range containers {
		if PresenceMatters(c) {
			names = append(names, c.Image)
		}
	}
	return names
}

// DecideImage decides what the start of a container does about its image. ref is
// what the runtime calls it, empty if the runtime does not have it.
// (kubelet images/image_manager.go:EnsureImageExists, imageNotPresentOnNeverPolicyError)
func DecideImage(c *corev1.Container, ref string) ImageNeed {
	need := ImageNeed{Container: c.Name, Image: c.Image, Use: ImagePull}
	switch {
	case !PresenceMatters(c):
	case ref != "":
		need.Use, need.Ref = ImagePresent, ref
	case c.ImagePullPolicy == corev1.PullNever:
		need.Use = ImageMissing
	}
	return need
}

// Started returns the containers of a pod that a plan starts, in their order.
func (a *Actions) Started(pod *corev1.Pod) []*corev1.Container {
	var started []*corev1.Container
	for _, i := range a.EphemeralContainersToStart {
		started = append(started, (*corev1.Container)(&pod.Spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
	for _, i := range a.InitContainersToStart {
		started = append(started, &pod.Spec.InitContainers[i])
	}
	for _, i := range a.ContainersToStart {
		started = append(started, &pod.Spec.Containers[i])
	}
	return started
}

// ImageOf returns what a plan says about a container's image.
func (a *Actions) ImageOf(container string) ImageNeed {
	for _, need := range a.Images {
		if need.Container == container {
			return need
		}
	}
	return ImageNeed{}
}

// imageNeeds says what the starts do about their images, as far as it is known.
func (p *planner) imageNeeds() {
	if p.Images == nil && len(p.Prepared) == 0 {
		return
	}
	for _, c := range p.actions.Started(p.Pod) {
		ref, known := p.Images[c.Image]
		switch prepared := p.Prepared[ImageKeyOf(c)]; {
		case prepared.Pulled && p.replaced(c):
			p.actions.Images = append(p.actions.Images, ImageNeed{Container: c.Name, Image: c.Image, Use: ImagePulled, Ref: prepared.Ref})
		case p.Images != nil && (known || !PresenceMatters(c)):
			p.actions.Images = append(p.actions.Images, DecideImage(c, ref))
		}
	}
}
