// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/managedworkload/managedworkload/runtime/hostfs"
	"github.com/managedworkload/managedworkload/runtime/hostfs/mounttest"
)

func requesting(names ...corev1.ResourceName) *corev1.Pod {
	return testPod(func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{}
		for _, name := range names {
			p.Spec.Containers[0].Resources.Requests[name] = resource.MustParse("2Gi")
		}
	})
}

func TestPageSize(t *testing.T) {
	const medium = corev1.StorageMediumHugePages
	inInit := testPod(func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"hugepages-1Gi": resource.MustParse("1Gi")},
		}}}
	})
	ofPod := testPod(func(p *corev1.Pod) {
		p.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{"hugepages-1Gi": resource.MustParse("1Gi")}}
	})
	tests := map[string]struct {
		pod     *corev1.Pod
		medium  corev1.StorageMedium
		want    int64
		wantErr string
	}{
		"the one that is requested":      {pod: requesting("hugepages-2Mi", "memory"), medium: medium, want: 2 << 20},
		"requested by an init container": {pod: inInit, medium: medium, want: 1 << 30},
		"requested by the pod":           {pod: ofPod, medium: medium, want: 1 << 30},
		"named, one of two":              {pod: requesting("hugepages-2Mi", "hugepages-1Gi"), medium: medium + "-1Gi", want: 1 << 30},
		"not named, two": {
			pod: requesting("hugepages-2Mi", "hugepages-1Gi"), medium: medium,
			wantErr: "medium: HugePages can't be used if container requests multiple huge page sizes",
		},
		"not requested": {
			pod: requesting("memory"), medium: medium,
			wantErr: "medium HugePages: hugePages storage requested, but there is no resource request for huge pages",
		},
		"named, and another requested": {
			pod: requesting("hugepages-2Mi"), medium: medium + "-1Gi",
			wantErr: "medium HugePages-1Gi: hugePages storage requested, but there is no resource request for huge pages",
		},
		"not a size": {pod: requesting("hugepages-2Mi"), medium: medium + "-x", wantErr: "medium HugePages-x: quantities must match"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := pageSize(tt.pod, tt.medium)
			if tt.wantErr != "" {
				if err == nil || !strings.HasPrefix(err.Error(), tt.wantErr) {
					t.Fatalf("error %v, want %q", err, tt.wantErr)
				}
				return
			}
			if err != nil || got != tt.want {
				t.Errorf("size %d, %v, want %d", got, err, tt.want)
			}
		})
	}
}

// An emptyDir of huge pages is a file system of pages of the size asked for, as the
// kernel makes it; another size is another volume.
func TestHugePagesVolume(t *testing.T) {
	for _, size := range []string{"2048", "1048576"} {
		if _, err := os.Stat("/sys/kernel/mm/hugepages/hugepages-" + size + "kB"); err != nil {
			t.Skip("the kernel has no huge pages of " + size + " kB")
		}
	}
	if !mounttest.Isolate(t) {
		return
	}
	m := newManager(t, nil)
	with := func(medium corev1.StorageMedium) *corev1.Pod {
		pod := requesting("hugepages-2Mi", "hugepages-1Gi")
		pod.Spec.Volumes = []corev1.Volume{emptyDirVolume("v", medium, "")}
		return pod
	}
	pod := with("HugePages-2Mi")
	prepare(t, m, pod)
	dir := m.emptyDir(pod.UID, "v")
	page := func() int64 {
		mounts, err := hostfs.MountsAt(dir)
		if err != nil || len(mounts) != 1 || !isHugetlbfs(mounts[0]) {
			t.Fatalf("mounts %v, %v, want one of huge pages", mounts, err)
		}
		return pageOf(mounts[0])
	}
	if info, err := os.Stat(dir); err != nil || info.Mode() != fs.ModeDir|0o755 || page() != 2<<20 {
		t.Errorf("%v, %v, pages of %d, want 0755 and 2 Mi", info, err, page())
	}
	data := filepath.Join(dir, "data")
	mounttest.Must(t, os.Mkdir(data, 0o700))
	prepare(t, m, pod)
	if !exists(data) {
		t.Error("the volume was mounted again")
	}
	prepare(t, m, with("HugePages-1Gi"))
	if exists(data) || page() != 1<<30 {
		t.Errorf("pages of %d after the medium changed, want 1 Gi", page())
	}
	prepare(t, m, with(corev1.StorageMediumMemory))
	if tmpfsBytes(t, dir) == 0 {
		t.Error("no tmpfs after the medium changed")
	}
	mounttest.Must(t, m.Unmount(t.Context(), pod.UID))
	if exists(dir) {
		t.Error("the volume is left")
	}
}
