// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podcgroup

import (
	"errors"
	"io/fs"
	"testing"
)

// Without a cgroup of the pod there is nothing to read.
func TestUsageWithoutCgroup(t *testing.T) {
	for name, parent := range map[string]string{"none are kept": "", "not made yet": "/managedworkload-usage-test"} {
		if used, err := newManager(t, Config{Parent: parent}).UsageOf("0f1c-22"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %+v, error %v", name, used, err)
		}
	}
}
