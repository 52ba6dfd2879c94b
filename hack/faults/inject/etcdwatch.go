// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
)

// Change is one change of a key in etcd.
type Change struct {
	Key string
	// Value is the new one, or the last one of a key that was deleted.
	Value   []byte
	Deleted bool
}

// watchAnswer is what etcd's JSON gateway streams.
type watchAnswer struct {
	Result struct {
		Canceled        bool   `json:"canceled"`
		CancelReason    string `json:"cancel_reason"`
		CompactRevision int64  `json:"compact_revision,string"`
		Events          []struct {
			Type string `json:"type"`
			KV   stored `json:"kv"`
			Prev stored `json:"prev_kv"`
		} `json:"events"`
	} `json:"result"`
}

type stored struct {
	Key         []byte `json:"key"`
	Value       []byte `json:"value"`
	ModRevision int64  `json:"mod_revision,string"`
}

// Watch passes on every change of the keys with a prefix from a revision on. It
// returns the last revision that it has seen when the watch ends; after a
// compaction that is the one before the compaction's.
func (e *Etcd) Watch(ctx context.Context, prefix string, revision int64, on func(Change) error) (last int64, err error) {
	body, err := json.Marshal(map[string]any{"create_request": map[string]any{
		"key": []byte(prefix), "range_end": prefixEnd(prefix), "start_revision": strconv.FormatInt(revision, 10), "prev_kv": true,
	}})
	if err != nil {
		return 0, err
	}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url()+"/v3/watch", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(post)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	decoder := json.NewDecoder(response.Body)
	for {
		var answer watchAnswer
		if err := decoder.Decode(&answer); err != nil {
			return last, err
		}
		result := answer.Result
		if result.CompactRevision > 0 {
			return result.CompactRevision - 1, fmt.Errorf("compacted at %d", result.CompactRevision)
		}
		if result.Canceled {
			return last, errors.New(result.CancelReason)
		}
		for _, event := range result.Events {
			change := Change{Key: string(event.KV.Key), Value: event.KV.Value, Deleted: event.Type == "DELETE"}
			if change.Deleted {
				change.Value = event.Prev.Value
			}
			if err := on(change); err != nil {
				return last, err
			}
			last = event.KV.ModRevision // that of the answer may be ahead of its events
		}
	}
}
