// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeadmission

import (
	"errors"
	"io/fs"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestSeccompProfilesAreOnTheNode(t *testing.T) {
	node := &Seccomp{Root: "/profiles", Stat: func(path string) (fs.FileInfo, error) {
		switch path {
		case "/profiles/there.json":
			return nil, nil
		case "/profiles/hung.json":
			return nil, errors.New("it does not answer")
		}
		return nil, fs.ErrNotExist
	}}
	local := func(file string) *corev1.SeccompProfile {
		return &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: &file}
	}
	for name, tc := range map[string]struct {
		pod, init, main *corev1.SeccompProfile
		privileged      bool
		want            string
	}{
		"none":                {},
		"the runtime's":       {main: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		"one that is there":   {main: local("there.json")},
		"one that is not":     {main: local("none.json"), want: "container main: there is no seccomp profile /profiles/none.json"},
		"an init container's": {init: local("none.json"), want: "container init: there is no seccomp profile /profiles/none.json"},
		"the pod's":           {pod: local("none.json"), want: "container init: there is no seccomp profile /profiles/none.json"},
		"the pod's, where each container has one of its own": {pod: local("none.json"), init: local("there.json"), main: local("there.json")},
		"a privileged container's":                           {main: local("none.json"), privileged: true},
		"one that is not looked at":                          {main: local("hung.json")},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{
				SecurityContext: &corev1.PodSecurityContext{SeccompProfile: tc.pod},
				InitContainers:  []corev1.Container{{Name: "init", SecurityContext: &corev1.SecurityContext{SeccompProfile: tc.init}}},
				Containers:      []corev1.Container{{Name: "main", SecurityContext: &corev1.SecurityContext{SeccompProfile: tc.main, Privileged: &tc.privileged}}},
			}}
			got := ""
			if refusal := node.Admit(pod); refusal != nil {
				got = refusal.Message
			}
			if got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
