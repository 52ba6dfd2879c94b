// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"context"
	"maps"
	"time"
)

// restFactor is how much longer than a question without an answer its container is left alone:
// other logs are not looked at while the runtime is asked, and this takes a tenth of the time.
const restFactor = 9

// ask asks the runtime about a container, for some time. One about which it does not answer
// rests.
func (m *Manager) ask(ctx context.Context, id string, question func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	begun := time.Now()
	err := question(ctx)
	if took := time.Since(begun); err != nil && took >= patience {
		m.resting[id] = time.Now().Add(restFactor * took)
	}
	return err
}

// rests reports whether a container is to be left alone.
func (m *Manager) rests(id string) bool { return time.Now().Before(m.resting[id]) }

// forgetRested drops those that have rested.
func (m *Manager) forgetRested() {
	maps.DeleteFunc(m.resting, func(id string, _ time.Time) bool { return !m.rests(id) })
}
