// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podvalidation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	resourcehelper "k8s.io/component-helpers/resource"
)

// resources checks the amounts that a container or a pod has. Which resources there are is not checked here.
func (p *problems) resources(r *corev1.ResourceRequirements, path *field.Path) {
	limits, requests := path.Child("limits"), path.Child("requests")
	p.amounts(r.Limits, limits)
	p.amounts(r.Requests, requests)
	huge := false
	for _, name := range slices.Sorted(maps.Keys(r.Requests)) {
		request, at := r.Requests[name], requests.Key(string(name))
		limit, limited := r.Limits[name]
		huge = huge || isHugePages(name)
		switch {
		case isHugePages(name) && !limited:
			p.add(field.Required(limits, "Limit must be set for non overcommitable resources"))
		case isHugePages(name) && request.Cmp(limit) != 0:
			p.invalid(at, request.String(), fmt.Sprintf("must be equal to %s limit of %s", name, limit.String()))
		case limited && request.Cmp(limit) > 0:
			p.invalid(at, request.String(), fmt.Sprintf("must be less than or equal to %s limit of %s", name, limit.String()))
		}
	}
	if huge && !hasCPUOrMemory(r.Requests) && !hasCPUOrMemory(r.Limits) {
		p.forbidden(path, "HugePages require cpu or memory")
	}
}

func (p *problems) amounts(list corev1.ResourceList, path *field.Path) {
	for _, name := range slices.Sorted(maps.Keys(list)) {
		amount, at := list[name], path.Key(string(name))
		if amount.Sign() < 0 {
			p.invalid(at, amount.String(), "must be greater than or equal to 0")
		}
		if isHugePages(name) && !isMultiple(name, amount) {
			p.invalid(at, amount.String(), fmt.Sprintf("%s is not positive integer multiple of %s", amount.String(), name))
		}
	}
}

func hasCPUOrMemory(list corev1.ResourceList) bool {
	_, cpu := list[corev1.ResourceCPU]
	_, memory := list[corev1.ResourceMemory]
	return cpu || memory
}

func isHugePages(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// isMultiple reports whether an amount is one of whole huge pages.
func isMultiple(name corev1.ResourceName, amount resource.Quantity) bool {
	size, err := resource.ParseQuantity(strings.TrimPrefix(string(name), corev1.ResourceHugePagesPrefix))
	return err == nil && size.Sign() > 0 && size.MilliValue()%1000 == 0 && amount.Sign() >= 0 && amount.Value()%size.Value() == 0
}

// podResources checks the amounts of a whole pod, and that its containers fit in.
func (p *problems) podResources(spec *corev1.PodSpec, path *field.Path) {
	if spec.Resources == nil {
		return
	}
	p.resources(spec.Resources, path)
	pod := &corev1.Pod{Spec: *spec}
	all := resourcehelper.AggregateContainerRequests(pod, resourcehelper.PodResourcesOptions{})
	for _, name := range slices.Sorted(maps.Keys(all)) {
		sum, at := all[name], path.Child("requests")
		amount, has := spec.Resources.Requests[name]
		if !has { // then its limit is what it requests at most
			amount, has = spec.Resources.Limits[name]
			at = path.Child("limits")
		}
		if has && sum.Cmp(amount) > 0 {
			p.invalid(at.Key(string(name)), amount.String(), "must be greater than or equal to aggregate container requests of "+sum.String())
		}
	}
	for i := range spec.Containers {
		limits := spec.Containers[i].Resources.Limits
		for _, name := range slices.Sorted(maps.Keys(limits)) {
			limit := limits[name]
			if most, has := spec.Resources.Limits[name]; has && limit.Cmp(most) > 0 {
				p.invalid(path.Child("limits").Key(string(name)), most.String(),
					fmt.Sprintf("must be greater than or equal to the limit %s of the container %s", limit.String(), spec.Containers[i].Name))
			}
		}
	}
}
