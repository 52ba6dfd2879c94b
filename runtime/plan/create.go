// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

// CreateOptions is what creating a container needs beside the pod.
type CreateOptions struct {
	// SandboxID is the runtime's ID of the sandbox the container is put in.
	SandboxID string
	// SandboxAttempt is the attempt number of that sandbox.
	SandboxAttempt uint32
	// Attempt is the container's restart count.
	Attempt int
	// ImageRef is what the runtime calls the pulled image.
	ImageRef string
	// VolumeImages is what the runtime calls the images of the volumes that the container
	// mounts, by volume.
	VolumeImages map[string]string
	// PodIPs are the addresses of the sandbox, the primary one first.
	PodIPs []string
}
