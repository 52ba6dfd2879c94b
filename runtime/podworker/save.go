// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"maps"
	"time"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// save writes the checkpoint. A failure is logged and does not stop the worker:
// what is on the node still works, only its memory is at risk.
func (w *worker) save() {
	w.saveMu.Lock()
	defer w.saveMu.Unlock()
	w.mu.Lock()
	cp := w.rec
	w.rec.Status.DeepCopyInto(&cp.Status)
	cp.Unannounced = append([]string(nil), w.rec.Unannounced...)
	cp.Pod, cp.PodHash, cp.Generation = w.want.pod, w.want.hash, w.want.generation
	cp.Gone, cp.Orphan, cp.RequestedBy = w.want.gone, w.want.orphan, w.want.requestedBy
	cp.RestartBackoff = w.want.restartBackoff
	final := w.final
	w.dirty = false
	w.mu.Unlock()
	if final {
		return
	}
	if err := w.cfg.Store.Save(&cp); err != nil {
		w.log.Error(err, "Checkpoint not written")
	}
}

// saveIfDirty writes the checkpoint if it is out of date.
func (w *worker) saveIfDirty() {
	w.mu.Lock()
	dirty := w.dirty
	w.mu.Unlock()
	if dirty {
		w.save()
	}
}

// removeCheckpoint removes the checkpoint for good.
func (w *worker) removeCheckpoint() error {
	w.saveMu.Lock()
	defer w.saveMu.Unlock()
	w.mu.Lock()
	w.final = true
	w.mu.Unlock()
	return w.cfg.Store.Remove(w.id.UID)
}

// backoff returns the entries that a sync works on.
func (w *worker) backoff() map[string]*plan.Backoff {
	w.mu.Lock()
	defer w.mu.Unlock()
	entries := maps.Clone(w.rec.Backoff)
	if entries == nil {
		entries = map[string]*plan.Backoff{}
	}
	return entries
}

// keepBackoff keeps the entries that a sync has left, but for those that are too
// old to count. (kubelet kubelet.go: backOff.GC in HandlePodCleanups)
func (w *worker) keepBackoff(entries map[string]*plan.Backoff) {
	policy := plan.DefaultBackoffPolicy()
	now := time.Now()
	maps.DeleteFunc(entries, func(_ string, e *plan.Backoff) bool { return e == nil || policy.Expired(e, now) })
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rec.Backoff = entries
	w.dirty = true
}
