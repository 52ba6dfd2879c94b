// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package localstack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// sweep takes down the stacks of processes that died before they could, such as
// a test that was killed. A stack that outlives its starter on purpose, or whose
// starter lives, is left alone.
func (s *Stack) sweep(ctx context.Context) error {
	dirs, err := otherStacks(s.layout)
	if err != nil {
		return err
	}
	for _, temp := range []string{os.TempDir(), "/var/tmp"} {
		// What a crash of the machine left has no processes any more.
		files, err := filepath.Glob(filepath.Join(temp, "mw-*", "state.json"))
		if err != nil {
			return err
		}
		for _, file := range files {
			dirs = append(dirs, filepath.Dir(file))
		}
	}
	var errs []error
	for _, dir := range dirs {
		errs = append(errs, s.sweepOne(ctx, dir))
	}
	return errors.Join(errs...)
}

func (s *Stack) sweepOne(ctx context.Context, dir string) error {
	l, err := newLayout(dir)
	if err != nil || l.dir == s.layout.dir {
		return err
	}
	if st, err := loadState(l); err != nil || st == nil || !st.Bound {
		return nil //nolint:nilerr // gone meanwhile, or not to be judged by this version
	}
	lock, err := tryLock(l)
	if err != nil || lock == nil {
		return nil //nolint:nilerr // in use, or another user's
	}
	s.progress("Taking down %s, whose owner died", l.dir)
	if err := errors.Join(takeDown(ctx, l, nil), release(l, lock)); err != nil {
		return fmt.Errorf("take down what a dead process left: %w", err)
	}
	return nil
}
