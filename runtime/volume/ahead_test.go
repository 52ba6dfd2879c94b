// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// What a start would find out about the node's paths is known before it, and nothing is made for that.
func TestAheadOfAStartPathsAreLookedAt(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m := newManager(t, nil)
	for name, tc := range map[string]struct {
		path    string
		is      corev1.HostPathType
		subPath string
		want    string
	}{
		"a directory that is there":             {"", corev1.HostPathDirectory, "", ""},
		"a directory that is not there":         {"none", corev1.HostPathDirectory, "", `MountVolume.SetUp failed for volume "v" : hostPath type check failed: ` + dir + `/none is not a directory`},
		"a file for a directory":                {"file", corev1.HostPathDirectoryOrCreate, "", "hostPath type check failed"},
		"a directory to be made":                {"made", corev1.HostPathDirectoryOrCreate, "", ""},
		"a file to be made":                     {"made", corev1.HostPathFileOrCreate, "", ""},
		"directories to be made":                {"made/deep", corev1.HostPathDirectoryOrCreate, "", ""},
		"a file in a directory to be made":      {"made/deep", corev1.HostPathFileOrCreate, "", dir + "/made: no such file or directory"},
		"a directory below a file":              {"file/deep", corev1.HostPathDirectoryOrCreate, "", dir + "/file is not a directory"},
		"a path of any type that is not there":  {"none", corev1.HostPathUnset, "sub", ""},
		"a subPath that is there":               {"", corev1.HostPathUnset, "file", ""},
		"a subPath to be made":                  {"", corev1.HostPathUnset, "made/deep", ""},
		"a subPath through a file":              {"", corev1.HostPathUnset, "file/deep", `container c: subPath "file/deep" of volume "v": `},
		"a subPath of a directory to be made":   {"made", corev1.HostPathDirectoryOrCreate, "sub", ""},
		"a subPath of what turns out as a file": {"file", corev1.HostPathUnset, "sub", `container c: subPath "sub" of volume "v": `},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "c", VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/v", SubPath: tc.subPath}}}},
				Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
					HostPath: &corev1.HostPathVolumeSource{Path: filepath.Join(dir, tc.path), Type: &tc.is},
				}}},
			}}
			err := m.Ahead(t.Context(), pod)
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("%v, want nothing", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("%v, want %q", err, tc.want)
			}
			if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
				t.Errorf("there are %v (%v)", entries, err)
			}
		})
	}
}
