// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apiobjects "github.com/managedworkload/managedworkload/api/objects"
	subresources "github.com/managedworkload/managedworkload/api/subresources/v1alpha1"
)

// recheckKeys is how long it is believed which keys an object has: a key that is added should be
// seen as soon as an object.
const recheckKeys = Recheck

// keyAnswer is which keys an object had at a time. Its values are not kept.
type keyAnswer struct {
	keys map[string]bool
	at   time.Time
}

// askedKeys are answers about objects that no node is connected for.
type askedKeys struct {
	mu      sync.Mutex
	answers map[apiobjects.Key]keyAnswer
}

func (a *askedKeys) get(key apiobjects.Key, now time.Time) (map[string]bool, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known, ok := a.answers[key]
	return known.keys, ok && now.Sub(known.at) < recheckKeys
}

func (a *askedKeys) put(key apiobjects.Key, keys map[string]bool, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.answers == nil {
		a.answers = map[apiobjects.Key]keyAnswer{}
	}
	maps.DeleteFunc(a.answers, func(_ apiobjects.Key, known keyAnswer) bool { return now.Sub(known.at) >= recheckKeys })
	a.answers[key] = keyAnswer{keys, now}
}

// MissingKeys returns which of some keys objects of a namespace do not have. An object that is
// missing itself, may not be read or has no place here is left out: Availability says so. The
// error is one of asking.
func (h *Hub) MissingKeys(ctx context.Context, namespace string, refs []apiobjects.KeyRef) (missing []apiobjects.KeyRef, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	for _, ref := range refs {
		key := apiobjects.Key{Namespace: namespace, Ref: ref.Ref}
		if ref.Ref == (apiobjects.Ref{Kind: apiobjects.ConfigMap, Name: apiobjects.RootCA}) || h.waits(key) {
			continue
		}
		state, err := h.availability(ctx, key)
		if err != nil {
			return nil, fmt.Errorf("ask for %s in namespace %s: %w", named(ref.Ref), namespace, err)
		}
		if state != subresources.ObjectPresent {
			continue
		}
		has, err := h.hasKey(ctx, key, ref.Name)
		if err != nil {
			return nil, fmt.Errorf("ask for the keys of %s in namespace %s: %w", named(ref.Ref), namespace, err)
		}
		if !has {
			missing = append(missing, ref)
		}
	}
	return missing, nil
}

// hasKey reports whether an object has a key. One that is gone meanwhile has all.
func (h *Hub) hasKey(ctx context.Context, key apiobjects.Key, name string) (bool, error) {
	if has, known := h.watchedKey(key, name); known {
		return has, nil
	}
	keys, known := h.keys.get(key, time.Now())
	if !known {
		list, err := source{client: h.client, key: key}.ListWithContext(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return false, fmt.Errorf("list: %w", err)
		}
		items, err := meta.ExtractList(list)
		if err != nil {
			return false, fmt.Errorf("read the list: %w", err)
		}
		if len(items) == 0 {
			return true, nil
		}
		state, err := present(key, items[0])
		if err != nil {
			return false, err
		}
		keys = make(map[string]bool, len(state.Data))
		for name := range state.Data {
			keys[strings.Clone(name)] = true
		}
		h.keys.put(key, keys, time.Now())
	}
	return keys[name], nil
}

// watchedKey reports whether an object has a key that a node is connected for.
func (h *Hub) watchedKey(key apiobjects.Key, name string) (has, known bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o := h.objects[key]
	if o == nil || o.state == nil || o.state.State != subresources.ObjectPresent {
		return false, false
	}
	_, has = o.state.Data[name]
	return has, true
}

// NamedKeys lists keys in words, the first ones by name.
func NamedKeys(refs []apiobjects.KeyRef) string {
	words := make([]string, 0, maxNamed)
	for _, ref := range refs[:min(len(refs), maxNamed)] {
		words = append(words, fmt.Sprintf("key %q of %s", ref.Name, named(ref.Ref)))
	}
	return listed(words, len(refs))
}
