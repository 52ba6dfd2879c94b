// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/hostfs"
)

// Secrets gives the pull secrets of pods, or objects.ErrNotReceived for one that may still
// come. What it returns is not changed.
type Secrets interface {
	Secret(namespace, name string) (*corev1.Secret, error)
}

// Runtime says which images there are, by what the runtime calls them.
type Runtime interface {
	// ImageRef is empty for an image that the runtime does not have.
	ImageRef(ctx context.Context, image string) (string, error)
	ListImages(ctx context.Context) ([]Image, error)
}

// Events takes events about pods.
type Events interface {
	Event(pod *corev1.Pod, fieldPath, eventtype, reason, message string)
}

// Config is what a Manager works with. Everything may be left out.
type Config struct {
	// Dir holds the records; without it they end with the process.
	Dir string
	// Secrets gives pull secrets; without it no Secret can be retrieved.
	Secrets Secrets
	// Runtime is asked what cut-off pulls have left, and which images are gone. Without
	// it a pull that was cut off leaves its image in doubt.
	Runtime Runtime
	Events  Events
}

// Manager knows who may use which image. It is safe for concurrent use.
type Manager struct {
	secrets  Secrets
	runtime  Runtime
	events   Events
	disk     disk
	patience *hostfs.Patience
	// looking holds a token while the runtime is asked for all images.
	looking chan struct{}

	// pulledOne is signalled after a pull.
	pulledOne chan struct{}

	mu sync.Mutex
	*memory
	uses uses
}

// diskPatience is how long a pull waits for its record to be written. (as kills do)
const diskPatience = 2 * time.Second

// New reads what an earlier process has recorded. What cannot be read is no error: in
// doubt images are pulled again.
func New(cfg Config, log logr.Logger) *Manager {
	m := &Manager{
		secrets: cfg.Secrets, runtime: cfg.Runtime, events: cfg.Events,
		disk: disk{cfg.Dir}, patience: hostfs.NewPatience(diskPatience), uses: newUses(), pulledOne: make(chan struct{}, 1),
		looking: make(chan struct{}, 1),
	}
	var err error
	if m.memory, err = readAll(m.disk); err != nil {
		log.Error(err, "Failed to read the records of image pulls; images may be pulled again")
	}
	if broken := len(m.brokenRecords) + len(m.brokenIntents); broken > 0 || m.brokenPreloaded {
		log.Info("Some records of image pulls are damaged; those images are pulled again", "count", broken)
	}
	m.doubt()
	return m
}

// For returns a pod's access to an image, by the name of its template.
func (m *Manager) For(pod *corev1.Pod, image string) *Access {
	return &Access{m: m, pod: pod, image: image}
}

// write brings what is known to the disk. What cannot be written is tried again by Run.
func (m *Manager) write(ctx context.Context, keys ...fileKey) {
	if err := m.flush(ctx, keys...); err != nil && ctx.Err() == nil {
		logr.FromContextOrDiscard(ctx).Error(err, "Failed to write a record of image pulls; retrying", "in", interval.String())
	}
}

// flush brings what is known to the disk, in this order, until something cannot be written.
func (m *Manager) flush(ctx context.Context, keys ...fileKey) error {
	for _, key := range keys {
		m.mu.Lock()
		unwritten := m.unwritten[key] != 0
		m.mu.Unlock()
		if !unwritten {
			continue
		}
		if err := m.patience.Do(ctx, m.disk.root, func() error { return m.writeOne(key) }); err != nil {
			return err
		}
	}
	return nil
}

// writeOne writes a file, and those of the intents that stayed for it. It differs from what is known until it has
// been written, and after that too if something has changed meanwhile.
func (m *Manager) writeOne(key fileKey) error {
	m.mu.Lock()
	content, change := m.content(key), m.unwritten[key]
	m.mu.Unlock()
	if err := m.disk.write(key.folder, key.file, content); err != nil {
		return err
	}
	m.mu.Lock()
	var intents []fileKey
	if m.unwritten[key] == change {
		delete(m.unwritten, key)
		if key.folder == pulledFolder {
			intents = m.recorded(key.file)
		}
	}
	m.mu.Unlock()
	for _, intent := range intents {
		if err := m.writeOne(intent); err != nil {
			return err
		}
	}
	return nil
}
