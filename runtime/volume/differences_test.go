// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// A link that leads out of the volume is resolved with the volume as its root, as
// the container itself would see it.
func TestSubPathLinkEndsInsideTheVolume(t *testing.T) {
	for name, to := range map[string]string{"absolute": "/inside", "relative": "../../../inside"} {
		t.Run(name, func(t *testing.T) {
			m := newManager(t, nil)
			volume := filepath.Join(t.TempDir(), "volume")
			pod := withVolumes(hostPathVolume("v", volume, corev1.HostPathDirectoryOrCreate))
			asRoot(t)
			prepare(t, m, pod)
			if err := os.Mkdir(filepath.Join(volume, "inside"), 0o755); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(volume, "inside", "f"), "x")
			if err := os.Symlink(to, filepath.Join(volume, "link")); err != nil {
				t.Fatal(err)
			}
			if got := read(t, filepath.Join(bind(t, m, pod, "link", corev1.MountPropagationNone), "f")); got != "x" {
				t.Errorf("the mount leads to %q, want the file inside of the volume", got)
			}
		})
	}
}
