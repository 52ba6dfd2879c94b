// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/faults/history"
	"github.com/managedworkload/managedworkload/hack/faults/inject"
)

// storedPrefix is before the keys of NodeWorkloads in etcd.
const storedPrefix = "/registry/managedworkload.dev/nodeworkloads/" + namespace + "/"

// observer keeps every kill record that the API ever had. It reads etcd, whose
// history has no gaps while the API server is away.
type observer struct {
	etcd *inject.Etcd

	mu            sync.Mutex
	records       map[string]history.Record
	created, gone map[string]time.Time
}

func newObserver(etcd *inject.Etcd) *observer {
	return &observer{etcd: etcd, records: map[string]history.Record{}, created: map[string]time.Time{}, gone: map[string]time.Time{}}
}

// watch follows etcd until the context is done.
func (o *observer) watch(ctx context.Context) {
	revision := int64(1)
	for ctx.Err() == nil {
		last, err := o.etcd.Watch(ctx, storedPrefix, revision, o.take)
		if last >= revision {
			revision = last + 1
		}
		if err != nil {
			pause(ctx, nil, retryAfter)
		}
	}
}

// take keeps what one change of etcd says.
func (o *observer) take(change inject.Change) error {
	if change.Key == "" {
		return nil
	}
	var nw v1alpha1.NodeWorkload
	if err := json.Unmarshal(change.Value, &nw); err != nil {
		return fmt.Errorf("object %s: %w", change.Key, err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	uid := string(nw.UID)
	o.created[uid] = nw.CreationTimestamp.Time
	if change.Deleted {
		o.gone[uid] = time.Now()
	}
	for _, kill := range nw.Status.Kills {
		key := uid + "/" + kill.ID
		if o.records[key].Phase == v1alpha1.KillPhaseDone && kill.Phase != v1alpha1.KillPhaseDone {
			continue // a restored etcd has it as it was
		}
		o.records[key] = history.Record{Workload: nw.Labels[v1alpha1.LabelWorkload], UID: uid, KillRecord: kill}
	}
	return nil
}

// fill adds what was seen to a history.
func (o *observer) fill(h *history.History) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.records {
		h.Records = append(h.Records, r)
	}
	h.Created, h.Gone = maps.Clone(o.created), maps.Clone(o.gone)
}
