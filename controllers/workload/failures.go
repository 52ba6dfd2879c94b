// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"

	"github.com/managedworkload/managedworkload/controllers/writes"
)

// failures are what went wrong on many nodes, as one short error: how often, and the first.
type failures struct {
	// first is one that is no mere conflict, if there is any, and conflict the first that is.
	first, conflict error
	count           int
}

// add notes an error, which may be nil.
func (f *failures) add(err error) {
	switch {
	case err == nil:
	case writes.OnlyConflicts(err):
		if f.conflict == nil {
			f.conflict = err
		}
	default:
		if f.first == nil {
			f.first = err
		}
		f.count++
	}
}

// serious is how many errors there are beside conflicts, which are tried again.
func (f *failures) serious() int { return f.count }

func (f *failures) err() error {
	switch {
	case f.count > 1:
		return fmt.Errorf("%w (and %d more errors)", f.first, f.count-1)
	case f.first != nil:
		return f.first
	}
	return f.conflict
}
