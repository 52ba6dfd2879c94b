// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import "time"

// oomWindow is how long after the kernel's count has risen an exit is taken for an OOM
// kill: the runtime reports the exit within moments.
const oomWindow = 10 * time.Second

// oomWatch follows the kernel's count of the processes of a pod that it killed for
// memory. What happened before it began to watch is not known.
type oomWatch struct {
	watching bool
	count    int64
	// rose is when the count was last seen to rise, by the process's own clock.
	rose time.Time
}

// see takes the count and says whether it has just risen.
func (w *oomWatch) see(count int64, now time.Time) bool {
	if w.watching && count > w.count {
		w.rose = now
	}
	w.watching, w.count = true, count
	return !w.rose.IsZero() && now.Sub(w.rose) < oomWindow
}
