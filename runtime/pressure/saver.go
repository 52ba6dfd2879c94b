// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package pressure

import (
	"time"

	"github.com/go-logr/logr"

	"github.com/managedworkload/managedworkload/runtime/panics"
	"github.com/managedworkload/managedworkload/runtime/statefile"
)

// diskPatience is how long the end of the process waits for the disk.
const diskPatience = 2 * time.Second

// saver writes the state file in a goroutine of its own: a disk that hangs, which is when evictions
// matter, must not hold the rounds. One write follows another; of several that wait the latest
// counts.
type saver struct {
	file   string
	write  func(path string, data []byte) error
	log    logr.Logger
	latest chan []byte
}

func newSaver(config Config) *saver {
	s := &saver{file: config.StateFile, write: config.write, log: config.Logger, latest: make(chan []byte, 1)}
	if s.write == nil {
		s.write = statefile.Replace
	}
	return s
}

// put has data written, in place of what waits to be written. Only one goroutine calls it.
func (s *saver) put(data []byte) {
	select {
	case <-s.latest:
	default:
	}
	s.latest <- data
}

// start runs the saver. stop waits until the latest is written; a disk that hangs does not hold the
// end of the process.
func (s *saver) start() (stop func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for data := range s.latest {
			err := panics.Contain(s.log, "the state of node pressure", func() error { return s.write(s.file, data) })
			if err != nil {
				s.failed(err)
			}
		}
	}()
	return func() {
		close(s.latest)
		timer := time.NewTimer(diskPatience)
		defer timer.Stop()
		select {
		case <-done:
		case <-timer.C:
		}
	}
}

func (s *saver) failed(err error) {
	s.log.Info("Failed to keep which pressure the node is under for the next process", "reason", err.Error())
}
