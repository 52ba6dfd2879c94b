// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// hugePagesDir has a directory for each page size of the kernel.
const hugePagesDir = "/sys/kernel/mm/hugepages"

// hugePagesExceeded names the limits of huge pages that the node's pools, below dir, are too
// small for. No scheduler has looked at them. path is where the pod's spec stands.
func hugePagesExceeded(pod *corev1.Pod, path *field.Path, dir string) field.ErrorList {
	var exceeded field.ErrorList
	for _, list := range []struct {
		field      string
		containers []corev1.Container
	}{{"initContainers", pod.Spec.InitContainers}, {"containers", pod.Spec.Containers}} {
		for i := range list.containers {
			limits := list.containers[i].Resources.Limits
			for _, name := range slices.Sorted(maps.Keys(limits)) {
				size, ok := strings.CutPrefix(string(name), corev1.ResourceHugePagesPrefix)
				if !ok {
					continue
				}
				limit := limits[name]
				if pool := hugePagePool(dir, size); limit.Value() > pool {
					at := path.Child(list.field).Index(i).Child("resources", "limits").Key(string(name))
					exceeded = append(exceeded, field.Invalid(at, limit.String(),
						fmt.Sprintf("this node has %s of huge pages of %s", resource.NewQuantity(pool, resource.BinarySI), size)))
				}
			}
		}
	}
	return exceeded
}

// hugePagePool is how many bytes of huge pages of a size the node has set aside.
func hugePagePool(dir, size string) int64 {
	page, err := resource.ParseQuantity(size)
	if err != nil {
		return 0
	}
	//nolint:gosec // A file of the kernel: the name is a number.
	data, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("hugepages-%dkB", page.Value()>>10), "nr_hugepages"))
	if err != nil {
		return 0 // the kernel has no such size
	}
	count, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	if err != nil {
		return 0
	}
	return count * page.Value()
}
