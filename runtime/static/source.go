// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package static

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/panics"
)

const (
	// interval is the time between two looks at the directory, whatever is heard of it.
	// (kubelet KubeletConfiguration: fileCheckFrequency)
	interval = 20 * time.Second
	// settled is how long a file must not have changed before it is read: it may be half
	// written.
	settled = time.Second
	// copying is how long the end of a workload whose file is gone waits while another file
	// is being written, which may be a copy of its file.
	copying = 10 * time.Second
	// restless is how long a file is being written before that is reported.
	restless = time.Minute
	// pause is how long more changes are waited for after one: a file that is written all the
	// time changes the directory as often, and each look reads all files.
	pause = 200 * time.Millisecond
)

// Config is what a Source needs.
type Config struct {
	// Dir is where the files are; "" if there is none: what ran from files is ended.
	Dir string
	// StateDir is where what must survive a restart is kept.
	StateDir string
	// Node is the name of the node.
	Node string
	// Update hands a version of an object to its worker. It must not block.
	Update func(*template.Workload)
	// Has reports whether a workload has a worker.
	Has func(types.UID) bool
	// Try returns what sees to it that what a workload needs of the node for its start is there, before the one that runs
	// from its file is ended for it. It is called until it returns no error, which says what is missing; it may take as
	// long as a pull takes, and ends with its context. Where Try is nil, each workload can run.
	Try func(nw *template.Workload, runs types.UID) func(context.Context) error
	// GaveUp says that a workload that was tried does not come: its file says something else now.
	GaveUp func(types.UID)
	// Published takes the status of a workload after each change: what its worker has published, and whether a change of
	// its file waits. It must not block.
	Published func(types.UID, *v1alpha1.NodeWorkloadStatus)
	// Refused says that a file is not accepted, once for each reason.
	Refused func(message string)
	Log     logr.Logger
}

// Source is where the workloads of this node come from that no API server has.
type Source struct {
	cfg Config

	// kicked asks for a look soon.
	kicked chan struct{}

	mu sync.Mutex
	// workloads are those whose end has not been seen, by UID.
	workloads map[types.UID]*workload
	// certain: all files were read and accepted at the last look.
	certain bool
	// unkept are the workloads of which the state directory does not have the latest, and
	// changed says that there are some.
	unkept  map[types.UID]bool
	changed chan struct{}
	// stale are the UIDs of instances that ended as long as the state directory may have them.
	stale map[types.UID]bool
	// returning are those that a shutdown of the node has ended and that run again although their files are not accepted.
	returning map[types.UID]instance

	// What follows belongs to the goroutine of Run.

	// files are what was read last, by path.
	files map[string]file
	// refused is why a file, or the directory, was not accepted last.
	refused map[string]string
	// trials are those of changed files, by the UID of what a file says now.
	trials map[types.UID]*trial
	// took: a change was taken in this look, or something is new, and taken counts the looks of which that was handed
	// over.
	took  bool
	taken atomic.Int64

	// trying are the goroutines of trials.
	trying sync.WaitGroup
}

// workload is one instance.
type workload struct {
	nw *template.Workload
	// path is its file, and missing since when it has none, the zero time while it has. removed is the file that it had
	// before another one said something else of its name.
	path, removed string
	missing       time.Time
	// published is the status that its worker has published, nil before; it is not changed.
	published *v1alpha1.NodeWorkloadStatus
	// waits is why a change of its file waits; empty if none does.
	waits waits
}

// New makes a source, and takes over what an earlier process knew.
func New(cfg Config) (*Source, error) {
	s := &Source{
		cfg: cfg, kicked: make(chan struct{}, 1), workloads: map[types.UID]*workload{},
		unkept: map[types.UID]bool{}, changed: make(chan struct{}, 1), stale: map[types.UID]bool{}, returning: map[types.UID]instance{},
		files: map[string]file{}, refused: map[string]string{}, trials: map[types.UID]*trial{},
	}
	if err := s.restore(); err != nil {
		return nil, fmt.Errorf("restore static workloads: %w", err)
	}
	return s, nil
}

// Run follows the directory, and keeps what becomes of the workloads, until the context is done.
func (s *Source) Run(ctx context.Context) error {
	defer s.startKeeping()()
	if s.cfg.Dir == "" {
		s.endAll(time.Now())
		<-ctx.Done()
		return nil
	}
	s.follow(ctx)
	return nil
}

// follow follows the directory until the context is done.
func (s *Source) follow(ctx context.Context) {
	watcher := s.watcher()
	defer watcher.close()
	defer s.trying.Wait() // they end with the context
	for {
		watcher.follow(s.cfg.Dir)
		again := interval
		_ = panics.Contain(s.cfg.Log, "static workloads", func() error { // it is logged
			again = s.look(ctx, time.Now())
			return nil
		})
		select {
		case <-ctx.Done():
			return
		case <-s.kicked:
		case <-watcher.events:
		case err := <-watcher.errors:
			s.cfg.Log.Info("Failed to hear of a change of the directory of static workloads; looking at it", "reason", fmt.Sprint(err))
		case <-time.After(again):
		}
		watcher.gather(pause)
	}
}
