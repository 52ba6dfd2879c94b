// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

// Current returns the newest instance of a container, nil if the runtime has
// none. (kubelet container/runtime.go:FindContainerStatusByName)
func (s *PodStatus) Current(name string) *ContainerStatus {
	for i := range s.Containers {
		if s.Containers[i].Name == name {
			return &s.Containers[i]
		}
	}
	return nil
}
