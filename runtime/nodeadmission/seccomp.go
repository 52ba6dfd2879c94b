// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeadmission

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// reasonSeccomp is not the kubelet's, which finds out when it makes a container.
const reasonSeccomp = "SeccompProfileNotFound"

// Seccomp admits pods whose Localhost profiles are on the node.
type Seccomp struct {
	// Root is the directory of the profiles.
	Root string
	// Stat finds a file of the node.
	Stat func(path string) (fs.FileInfo, error)
}

// Admit refuses a pod that asks for a profile that is not there. The runtime gives none to a privileged container. What cannot be looked at is no reason: the runtime has
// the last word.
func (s *Seccomp) Admit(pod *corev1.Pod) *plan.Refusal {
	for c := range podspec.InitAndMain(pod) {
		profile := podspec.SeccompProfile(pod, c)
		if podspec.IsPrivileged(c) || profile == nil || profile.Type != corev1.SeccompProfileTypeLocalhost || profile.LocalhostProfile == nil {
			continue
		}
		path := filepath.Join(s.Root, *profile.LocalhostProfile)
		if _, err := s.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return &plan.Refusal{Reason: reasonSeccomp, Message: fmt.Sprintf("container %s: there is no seccomp profile %s", c.Name, path)}
		}
	}
	return nil
}
