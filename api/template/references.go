// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/managedworkload/managedworkload/api/objects"
)

// Each object is watched for the fleet and held on each node, and each token is asked for by
// each node.
const (
	maxObjects = 500
	maxTokens  = 50
)

// checkReferences refuses a template that refers to more than manager and shim hold.
func (c *checker) checkReferences(spec *corev1.PodSpec, path *field.Path) {
	if n := len(objects.Of(spec)); n > maxObjects {
		c.refuse(path, fmt.Sprintf("a template may refer to at most %d ConfigMaps and Secrets; this one refers to %d", maxObjects, n))
	}
	if n := len(objects.Tokens(spec)); n > maxTokens {
		c.refuse(path.Child("volumes"), fmt.Sprintf("a template may ask for at most %d service account tokens; this one asks for %d", maxTokens, n))
	}
}
