// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package panics

import (
	"fmt"
	"runtime/debug"

	"github.com/go-logr/logr"
)

// Contain calls do and returns its error, or an error in place of its panic, which
// is logged with the stack.
func Contain(log logr.Logger, part string, do func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			log.Error(fmt.Errorf("panic: %v", r), "Recovered from a panic", "part", part, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic in %s: %v", part, r)
		}
	}()
	return do()
}
