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
	// Volume is the one whose image it is; empty for what the container starts from.
	Volume string
	Use    ImageUse
	// Ref is what the runtime calls an image that is present or was pulled.
	Ref string
}

// PresenceMatters is whether a start depends on what the runtime has: an image that is
// always pulled is pulled without asking.
func (k ImageKey) PresenceMatters() bool { return k.Policy != corev1.PullAlways }

// ImagesToAskFor returns the names of the images about which the runtime is asked.
func ImagesToAskFor(keys iter.Seq[ImageKey]) []string {
	var names []string
	for k := range keys {
		if k.PresenceMatters() {
			names = append(names, k.Image)
		}
	}
	return names
}

// DecideImage decides what the start of a container does about its image. ref is
// what the runtime calls it, empty if the runtime does not have it.
func DecideImage(c *corev1.Container, ref string) ImageNeed {
	need := ImageKeyOf(c).Decide(ref)
	need.Container = c.Name
	return need
}

// Decide decides what a start does about an image, for whomever needs it.
// (kubelet images/image_manager.go:EnsureImageExists, imageNotPresentOnNeverPolicyError)
func (k ImageKey) Decide(ref string) ImageNeed {
	need := ImageNeed{Image: k.Image, Use: ImagePull}
	switch {
	case !k.PresenceMatters():
	case ref != "":
		need.Use, need.Ref = ImagePresent, ref
	case k.Policy == corev1.PullNever:
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
func (a *Actions) ImageOf(container string) ImageNeed { return a.VolumeImageOf(container, "") }

// VolumeImageOf returns what a plan says about the image of a volume that a container
// mounts.
func (a *Actions) VolumeImageOf(container, volume string) ImageNeed {
	for _, need := range a.Images {
		if need.Container == container && need.Volume == volume {
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
		p.imageNeed(c, "", ImageKeyOf(c))
		for _, v := range MountedImages(p.Pod, c) {
			p.imageNeed(c, v.Volume, v.Image)
		}
	}
}

func (p *planner) imageNeed(c *corev1.Container, volume string, key ImageKey) {
	ref, known := p.Images[key.Image]
	var need ImageNeed
	switch prepared := p.Prepared[key]; {
	case prepared.Pulled && p.replaced(c):
		need = ImageNeed{Image: key.Image, Use: ImagePulled, Ref: prepared.Ref}
	case p.Images != nil && (known || !key.PresenceMatters()):
		need = key.Decide(ref)
	default:
		return
	}
	need.Container, need.Volume = c.Name, volume
	p.actions.Images = append(p.actions.Images, need)
}
