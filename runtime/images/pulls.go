// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/managedworkload/managedworkload/runtime/runtimeerror"
)

// aggregate joins the failures of a pull as the kubelet does: one alone stays as it is, so
// that its reason can be seen.
func aggregate(failures []error) error {
	if len(failures) == 1 {
		return failures[0]
	}
	words := make([]error, 0, len(failures))
	for _, err := range failures {
		words = append(words, errors.New(runtimeerror.Text(err)))
	}
	return utilerrors.NewAggregate(words)
}

// begin records that a pull begins, before it does, and which images are preloaded.
func (m *Manager) begin(ctx context.Context, image string) error {
	if err := m.readAgain(ctx); err != nil { // an intent that is there may say what an earlier pull has brought
		return fmt.Errorf("failed to record image pull intent: %w", err)
	}
	m.settle(ctx) // the tag may move: settle earlier pulls first
	if _, err := m.look(ctx); err != nil {
		return fmt.Errorf("failed to record image pull intent: %w", err)
	}
	before := ""
	if m.runtime != nil {
		if ref, err := m.runtime.ImageRef(ctx, tagged(image)); err == nil {
			before = ref
		}
	}
	m.mu.Lock()
	i := m.intents[image]
	if i == nil {
		i = &intent{Image: image, Before: before}
		if m.brokenIntents[fileOf(image)] { // what is there may be from the pull that it was about
			i.Before, i.cutOff = "", time.Now()
		}
		m.intents[image] = i
		m.changed(fileKey{pullingFolder, fileOf(image)})
	}
	i.pulls++
	m.mu.Unlock()
	err := m.flush(ctx, preloadedFile, fileKey{pullingFolder, fileOf(image)})
	if err == nil {
		return nil
	}
	m.finished(ctx, image)
	return fmt.Errorf("failed to record image pull intent: %w", err)
}

// end records how a pull ended: with which credential, or that it failed.
func (m *Manager) end(ctx context.Context, image, ref string, used *Credential, err error) {
	ctx = context.WithoutCancel(ctx) // what was pulled is recorded in any case
	if err == nil {
		m.pulled(ctx, image, ref, used)
	}
	m.finished(ctx, image)
}

// noteCutOff notes that a pull may have brought an image without an answer, or still may.
func (m *Manager) noteCutOff(image string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.intents[image].cutOff = time.Now()
}

// finished ends a pull. Its intent stays while another pull may bring an image, and while the record
// of one is not on the disk.
func (m *Manager) finished(ctx context.Context, image string) {
	m.mu.Lock()
	i := m.intents[image]
	i.pulls--
	file := m.release(i)
	m.mu.Unlock()
	m.write(ctx, file)
}

// pulled records a pull that succeeded.
func (m *Manager) pulled(ctx context.Context, image, ref string, used *Credential) {
	if m.runtime != nil {
		id, err := m.runtime.ImageRef(ctx, ref)
		if err != nil { // a record by another name would be one of another image
			m.noteCutOff(image)
			return
		}
		ref = cmp.Or(id, ref)
	}
	m.noteGrant(ctx, ref, withoutTag(image), used)
	m.mu.Lock()
	m.uses.since[ref] = time.Now()
	m.brought(m.intents[image], ref)
	m.mu.Unlock()
	select {
	case m.pulledOne <- struct{}{}:
	default:
	}
}

// noteGrant notes that an image may be used by a name with a credential, or by everyone.
func (m *Manager) noteGrant(ctx context.Context, ref, name string, used *Credential) {
	m.mu.Lock()
	known := m.records[ref]
	if known == nil {
		known = &record{Ref: ref}
	}
	changed := known.with(name, used, time.Now())
	if changed == nil {
		m.mu.Unlock()
		return
	}
	file := m.setRecord(changed)
	m.mu.Unlock()
	m.write(ctx, file)
}

// lateness is how long after a pull was cut off its image may still come: a runtime ends a pull with
// its call.
const lateness = time.Minute

// settle finds out what pulls have left that were cut off: nothing, what was there before,
// or an image of which it is not known who may use it. (kubelet
// pullmanager/image_pull_manager.go:initialize)
func (m *Manager) settle(ctx context.Context) {
	if m.runtime == nil {
		return
	}
	m.mu.Lock()
	cutOff := m.cutOff()
	m.mu.Unlock()
	for _, i := range cutOff {
		asked := time.Now()
		ref, err := m.runtime.ImageRef(ctx, tagged(i.Image))
		if err != nil {
			logr.FromContextOrDiscard(ctx).Error(err, "Cannot find out what a pull that was cut off has left; retrying", "image", i.Image)
			continue
		}
		m.settleOne(ctx, i, ref, asked)
	}
}

// settleOne takes over what a pull has left that was cut off, as the runtime had it when it was asked: its
// record first.
func (m *Manager) settleOne(ctx context.Context, i intent, ref string, asked time.Time) {
	m.mu.Lock()
	brought := ref != "" && ref != i.Before
	if brought && m.records[ref] == nil {
		file := m.setRecord(&record{Ref: ref, Updated: time.Now()})
		m.mu.Unlock()
		m.write(ctx, file)
		m.mu.Lock()
	}
	now := m.intents[i.Image]
	if now == nil {
		m.mu.Unlock()
		return
	}
	if brought {
		m.brought(now, ref)
	}
	if now.pulls == 0 && asked.Sub(now.cutOff) >= lateness {
		now.cutOff = time.Time{}
	}
	file := m.release(now)
	m.mu.Unlock()
	m.write(ctx, file)
}
