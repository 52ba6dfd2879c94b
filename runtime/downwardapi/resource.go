// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package downwardapi

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Resource resolves a resourceFieldRef to a container. unset is what a limit is that
// the container does not have; huge pages are never among it: they cannot be overcommitted.
// (pkg/api/v1/resource/helpers.go:ExtractContainerResourceValue, MergeContainerResourceLimits)
func Resource(c *corev1.Container, ref *corev1.ResourceFieldSelector, unset corev1.ResourceList) (string, error) {
	kind, name, _ := strings.Cut(ref.Resource, ".")
	var quantity resource.Quantity
	switch kind {
	case "limits":
		quantity = limit(c, corev1.ResourceName(name), unset)
	case "requests":
		quantity = c.Resources.Requests[corev1.ResourceName(name)]
	default:
		return "", fmt.Errorf("unsupported container resource : %v", ref.Resource)
	}
	switch {
	case name == string(corev1.ResourceCPU):
		return divide(quantity.MilliValue(), ref.Divisor, (*resource.Quantity).MilliValue), nil
	case name == string(corev1.ResourceMemory), name == string(corev1.ResourceEphemeralStorage), isHugePages(name):
		return divide(quantity.Value(), ref.Divisor, (*resource.Quantity).Value), nil
	default:
		return "", fmt.Errorf("unsupported container resource : %v", ref.Resource)
	}
}

func limit(c *corev1.Container, name corev1.ResourceName, unset corev1.ResourceList) resource.Quantity {
	if limit := c.Resources.Limits[name]; !limit.IsZero() || isHugePages(string(name)) {
		return limit
	}
	return unset[name]
}

func isHugePages(name string) bool { return strings.HasPrefix(name, corev1.ResourceHugePagesPrefix) }

// divide returns value in units of the divisor, rounded up.
func divide(value int64, divisor resource.Quantity, unit func(*resource.Quantity) int64) string {
	by := unit(&divisor)
	if divisor.IsZero() {
		by = unit(resource.NewQuantity(1, resource.DecimalSI))
	}
	if by == 0 { // a divisor below the unit
		by = 1
	}
	return strconv.FormatInt(int64(math.Ceil(float64(value)/float64(by))), 10)
}
