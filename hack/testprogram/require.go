// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strings"
	"sync"
)

// requirements are commands that have to succeed before the program is ready.
type requirements [][]string

func (r *requirements) String() string {
	lines := make([]string, 0, len(*r))
	for _, words := range *r {
		lines = append(lines, strings.Join(words, " "))
	}
	return strings.Join(lines, "; ")
}

// Set adds a requirement.
func (r *requirements) Set(value string) error {
	words := strings.Fields(value)
	if len(words) == 0 {
		return errors.New("an empty requirement")
	}
	*r = append(*r, words)
	return nil
}

// checklist are the requirements that were not met yet.
type checklist struct {
	log *journal

	mu   sync.Mutex
	left requirements
	said string
}

// check tries what is left, and returns and logs why that is not met.
func (c *checklist) check() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.left) == 0 {
		return nil
	}
	var left requirements
	var errs []error
	for _, words := range c.left {
		if err := runCommand(words[0], words[1:]); err != nil {
			left = append(left, words)
			errs = append(errs, fmt.Errorf("%s: %w", strings.Join(words, " "), err))
		}
	}
	c.left = left
	err := errors.Join(errs...)
	switch {
	case err == nil:
		c.log.printf("all requirements are met")
	case err.Error() != c.said:
		c.said = err.Error()
		c.log.printf("not met: %s", strings.ReplaceAll(c.said, "\n", "; "))
	}
	return err
}
