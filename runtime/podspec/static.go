// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// IsStatic reports whether a UID is that of a workload from a file.
func IsStatic(uid types.UID) bool { return strings.HasPrefix(string(uid), v1alpha1.StaticUIDPrefix) }
