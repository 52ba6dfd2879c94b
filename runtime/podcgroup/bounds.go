// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podcgroup

import (
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	helpers "k8s.io/component-helpers/resource"
)

// Bounds are what all pods of a node may have together: the limits of the parent
// cgroup. Zero is no bound.
type Bounds struct {
	CPU, Memory resource.Quantity
	Pids        int64
}

// flag is the shim's flag of a bound, with its value.
func (b Bounds) flag(k limitKind) string {
	switch k {
	case cpuLimit:
		return "--max-cpu=" + b.CPU.String()
	case memoryLimit:
		return "--max-memory=" + b.Memory.String()
	default:
		return fmt.Sprintf("--max-pids=%d", b.Pids)
	}
}

// limits are the bounds as the kernel keeps them: in microseconds of each quotaPeriod,
// where systemd keeps whole percents of a CPU, in whole pages, and as a number.
func (b Bounds) limits(driver string) [limitKinds]int64 {
	out := [limitKinds]int64{withoutLimit, withoutLimit, withoutLimit}
	if cpu := b.CPU.MilliValue(); cpu > 0 {
		quota := max(cpu*quotaPeriod/milliPerCPU, minQuota)
		if driver == DriverSystemd {
			const percent = quotaPeriod / 100
			quota = (quota + percent - 1) / percent * percent
		}
		out[cpuLimit] = quota
	}
	if memory, page := b.Memory.Value(), int64(os.Getpagesize()); memory > 0 {
		out[memoryLimit] = max(memory/page, 1) * page
	}
	if b.Pids > 0 {
		out[pidsLimit] = b.Pids
	}
	return out
}

// Exceeded names what a pod declares that is above a bound: the limits of its
// containers, added up as those of its cgroup are, or else their requests. What a
// container does not declare does not count. path is where the pod's spec stands.
func (b Bounds) Exceeded(pod *corev1.Pod, path *field.Path) field.ErrorList {
	var exceeded field.ErrorList
	for _, of := range []struct {
		kind  limitKind
		name  corev1.ResourceName
		bound resource.Quantity
	}{{cpuLimit, corev1.ResourceCPU, b.CPU}, {memoryLimit, corev1.ResourceMemory, b.Memory}} {
		if of.bound.IsZero() {
			continue
		}
		for _, declared := range []declaration{limitsDeclared, requestsDeclared} {
			if err := declared.above(pod, path, of.name, of.bound, b.flag(of.kind)); err != nil {
				exceeded = append(exceeded, err)
				break
			}
		}
	}
	return exceeded
}

// declaration is one of the two things that a container says about a resource.
type declaration struct {
	field string
	sum   func(*corev1.Pod, helpers.PodResourcesOptions) corev1.ResourceList
	of    func(*corev1.ResourceRequirements) corev1.ResourceList
}

var (
	limitsDeclared = declaration{"limits", helpers.PodLimits,
		func(r *corev1.ResourceRequirements) corev1.ResourceList { return r.Limits }}
	requestsDeclared = declaration{"requests", helpers.PodRequests,
		func(r *corev1.ResourceRequirements) corev1.ResourceList { return r.Requests }}
)

// above names the container that is above a bound alone, or else the sum; nil if
// neither is.
func (d declaration) above(pod *corev1.Pod, path *field.Path, name corev1.ResourceName, bound resource.Quantity, flag string) *field.Error {
	sum := d.sum(pod, helpers.PodResourcesOptions{})[name]
	if sum.Cmp(bound) <= 0 {
		return nil
	}
	for _, list := range []struct {
		field      string
		containers []corev1.Container
	}{{"initContainers", pod.Spec.InitContainers}, {"containers", pod.Spec.Containers}} {
		for i := range list.containers {
			if own := d.of(&list.containers[i].Resources)[name]; own.Cmp(bound) > 0 {
				at := path.Child(list.field).Index(i).Child("resources", d.field).Key(string(name))
				return field.Invalid(at, own.String(), "above this node's "+flag)
			}
		}
	}
	return field.Invalid(path.Child("containers"), sum.String(), fmt.Sprintf("the %s of %s add up to more than this node's %s", d.field, name, flag))
}
