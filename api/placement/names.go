// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// maxNameLength keeps the name of a NodeWorkload usable as a host name.
const maxNameLength = validation.DNS1123LabelMaxLength

// hashLength is the number of hex digits that stand for what was cut off.
const hashLength = 10

// NodeWorkloadName is the name of a workload's NodeWorkload on a node:
// `<workload>-<node>`, its end replaced by a hash when that is longer than 63.
func NodeWorkloadName(workload, node string) string {
	name := workload + "-" + node
	if len(name) <= maxNameLength {
		return name
	}
	// A slash is in no name, so that no two pairs have the same hash.
	return cut(name, workload+"/"+node)
}

// LabelValue is a name as the value of a label, hashed when it is longer than a
// label's value may be.
func LabelValue(name string) string {
	if len(name) <= validation.LabelValueMaxLength {
		return name
	}
	return cut(name, name)
}

// cut shortens name to 63 characters; identity distinguishes it from names
// with the same beginning.
func cut(name, identity string) string {
	sum := sha256.Sum256([]byte(identity))
	prefix := strings.TrimRight(name[:maxNameLength-hashLength-1], "-._")
	return prefix + "-" + hex.EncodeToString(sum[:])[:hashLength]
}
