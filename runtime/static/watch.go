// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package static

import (
	"time"

	"github.com/fsnotify/fsnotify"
)

// watcher hears of changes of a directory. Without one the directory is looked at in
// intervals.
type watcher struct {
	inotify *fsnotify.Watcher
	events  <-chan fsnotify.Event
	errors  <-chan error
}

func (s *Source) watcher() watcher {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		s.cfg.Log.Info("Failed to watch the directory of static workloads; looking at it every 20 s", "reason", err.Error())
		return watcher{}
	}
	return watcher{inotify: w, events: w.Events, errors: w.Errors}
}

// follow watches a directory from now on, if it is there: it may have been made again.
func (w watcher) follow(dir string) {
	if w.inotify != nil {
		_ = w.inotify.Add(dir) // reading it says why it cannot be
	}
}

// gather takes the changes of a while as one: a look at the directory follows.
func (w watcher) gather(while time.Duration) {
	over := time.After(while)
	for {
		select {
		case <-w.events:
		case <-w.errors: //nolint:errcheck // the look that follows says what is wrong
		case <-over:
			return
		}
	}
}

func (w watcher) close() {
	if w.inotify != nil {
		_ = w.inotify.Close() // nothing depends on it any more
	}
}
