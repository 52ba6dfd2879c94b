// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// hugetlbfs is the type of file systems of huge pages, and hugeSource the source that the
// shim names.
const (
	hugetlbfs  = "hugetlbfs"
	hugeSource = "nodev"
)

func isHugePages(medium corev1.StorageMedium) bool {
	return medium == corev1.StorageMediumHugePages || strings.HasPrefix(string(medium), string(corev1.StorageMediumHugePagesPrefix))
}

// isHugetlbfs says that a mount is a whole hugetlbfs, as the shim mounts it.
func isHugetlbfs(mount *mountinfo.Info) bool {
	return mount.FSType == hugetlbfs && mount.Source == hugeSource && mount.Root == "/"
}

func mountHugePages(dir string, page int64) error {
	if err := makeDir(dir, worldMode); err != nil {
		return err
	}
	if err := unix.Mount(hugeSource, dir, hugetlbfs, 0, "pagesize="+strconv.FormatInt(page, 10)); err != nil {
		return fmt.Errorf("mount hugetlbfs with pages of %s: %w", quantity(page), err)
	}
	return nil
}

// pageOf is the size of the pages of a hugetlbfs in bytes; 0 where its mount does not say.
// The kernel writes 2M for 2Mi. (volume/emptydir/empty_dir_linux.go:getPageSize)
func pageOf(mount *mountinfo.Info) int64 {
	for option := range strings.SplitSeq(mount.VFSOptions, ",") {
		if text, ok := strings.CutPrefix(option, "pagesize="); ok {
			if size, err := resource.ParseQuantity(strings.TrimSuffix(text, "i") + "i"); err == nil {
				return size.Value()
			}
		}
	}
	return 0
}

// pageSize is the size, in bytes, of the pages that a medium stands for: that in its name,
// or the only one that the pod requests. (volume/emptydir/empty_dir.go:getPageSizeMountOption)
func pageSize(pod *corev1.Pod, medium corev1.StorageMedium) (int64, error) {
	var named int64
	if text, ok := strings.CutPrefix(string(medium), string(corev1.StorageMediumHugePagesPrefix)); ok {
		size, err := resource.ParseQuantity(text)
		if err != nil {
			return 0, fmt.Errorf("medium %s: %w", medium, err)
		}
		named = size.Value()
	}
	var found int64
	for _, requests := range allRequests(pod) {
		for name := range requests {
			text, ok := strings.CutPrefix(string(name), corev1.ResourceHugePagesPrefix)
			if !ok {
				continue
			}
			size, err := resource.ParseQuantity(text)
			switch {
			case err != nil:
				return 0, fmt.Errorf("resource %s: %w", name, err)
			case named != 0 && size.Value() != named:
			case found != 0 && size.Value() != found:
				return 0, fmt.Errorf("medium: %s can't be used if container requests multiple huge page sizes", medium)
			default:
				found = size.Value()
			}
		}
	}
	if found == 0 {
		return 0, fmt.Errorf("medium %s: hugePages storage requested, but there is no resource request for huge pages", medium)
	}
	return found, nil
}

// allRequests are the requests of the pod and of its containers.
func allRequests(pod *corev1.Pod) []corev1.ResourceList {
	var all []corev1.ResourceList
	if pod.Spec.Resources != nil {
		all = append(all, pod.Spec.Resources.Requests)
	}
	for c := range podspec.InitAndMain(pod) {
		all = append(all, c.Resources.Requests)
	}
	return all
}
