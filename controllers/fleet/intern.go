// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"strings"
	"sync"
)

// maxInterned is how many texts a generation of texts may have.
const maxInterned = 1 << 16

// texts keep equal texts of many Shares once. Those that are not asked for any more are
// dropped after two generations, so that texts with times in them do not pile up.
type texts struct {
	mu         sync.Mutex
	young, old map[string]string
}

var interned texts

// intern is a text that many Shares have, kept once.
func intern(text string) string {
	if text == "" {
		return ""
	}
	return interned.one(text)
}

func (t *texts) one(text string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, ok := t.young[text]; ok {
		return known
	}
	known, ok := t.old[text]
	if !ok {
		known = strings.Clone(text)
	}
	if t.young == nil || len(t.young) >= maxInterned {
		t.young, t.old = make(map[string]string), t.young
	}
	t.young[known] = known
	return known
}
