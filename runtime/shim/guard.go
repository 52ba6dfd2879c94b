// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/go-logr/logr"
)

// guard makes a panic of a part of the shim an error of that part: the kills under
// way and the other parts continue.
func guard(ctx context.Context, part string, do func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			logr.FromContextOrDiscard(ctx).Error(fmt.Errorf("panic: %v", r), "Recovered from a panic", "part", part, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic in %s: %v", part, r)
		}
	}()
	return do()
}

// maxErrors is how many errors of one kind are named.
const maxErrors = 5

// summarize joins errors: the first few by name, the others by their number.
func summarize(errs []error) error {
	if more := len(errs) - maxErrors; more > 0 {
		errs = append(errs[:maxErrors:maxErrors], fmt.Errorf("and %d more", more))
	}
	return errors.Join(errs...)
}
