// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package static

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
)

// A file that is written a thousand times a second does not have the directory read as often.
func TestManyChangesAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events, over := make(chan fsnotify.Event), make(chan struct{})
		var writer sync.WaitGroup
		writer.Go(func() {
			for {
				select {
				case events <- fsnotify.Event{}:
				case <-over:
					return
				}
				time.Sleep(time.Millisecond)
			}
		})
		looks := 0
		for begun := time.Now(); time.Since(begun) < time.Second; looks++ {
			watcher{events: events}.gather(200 * time.Millisecond)
		}
		close(over)
		writer.Wait()
		if looks != 5 {
			t.Errorf("%d looks in a second", looks)
		}
	})
}
