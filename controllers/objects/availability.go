// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	apiobjects "github.com/managedworkload/managedworkload/api/objects"
	subresources "github.com/managedworkload/managedworkload/api/subresources/v1alpha1"
)

const (
	// Recheck is how long it is believed that an object is missing or may not be read.
	Recheck = 30 * time.Second
	// RecheckPresent is how long it is believed that an object is there.
	RecheckPresent = 5 * time.Minute
	// askTimeout bounds all questions about one template.
	askTimeout = 10 * time.Second
)

// metadataOnly is what the API server answers with: no content of any object.
const metadataOnly = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1," +
	"application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

// Availability says which objects a node would not get.
type Availability struct {
	// NoRight are those that the manager may not read, and NotFound those that do not exist.
	NoRight, NotFound []apiobjects.Ref
	// TooMuch says why no node gets the objects for which the manager has no place, "" if it
	// has one for all that it reads.
	TooMuch string
	// Message names those of NoRight, and the command that gives the right.
	Message string
}

// answer is what the API server said of an object at a time.
type answer struct {
	state subresources.ObjectState
	at    time.Time
}

func (a answer) fresh(now time.Time) bool {
	if a.state == subresources.ObjectPresent {
		return now.Sub(a.at) < RecheckPresent
	}
	return now.Sub(a.at) < Recheck
}

// asked are answers about objects that no node is connected for.
type asked struct {
	mu      sync.Mutex
	answers map[apiobjects.Key]answer
	swept   time.Time
}

func (a *asked) get(key apiobjects.Key) (subresources.ObjectState, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known, ok := a.answers[key]
	return known.state, ok && known.fresh(time.Now())
}

func (a *asked) put(key apiobjects.Key, state subresources.ObjectState) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if now.Sub(a.swept) > RecheckPresent {
		a.swept = now
		for key, known := range a.answers {
			if !known.fresh(now) {
				delete(a.answers, key)
			}
		}
	}
	if a.answers == nil {
		a.answers = map[apiobjects.Key]answer{}
	}
	a.answers[key] = answer{state, now}
}

// Availability reports which objects of a namespace no node would get. It reads metadata only,
// and asks the API server about what it does not know. The error is one of asking.
func (h *Hub) Availability(ctx context.Context, namespace string, refs []apiobjects.Ref) (Availability, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var a Availability
	for _, ref := range refs {
		if h.waits(apiobjects.Key{Namespace: namespace, Ref: ref}) {
			a.TooMuch = tooMuch(namespace)
			continue
		}
		state, err := h.availability(ctx, apiobjects.Key{Namespace: namespace, Ref: ref})
		if err != nil {
			return Availability{}, fmt.Errorf("ask for %s in namespace %s: %w", named(ref), namespace, err)
		}
		switch state {
		case subresources.ObjectForbidden:
			a.NoRight = append(a.NoRight, ref)
		case subresources.ObjectNotFound:
			a.NotFound = append(a.NotFound, ref)
		case subresources.ObjectPresent, subresources.ObjectUnavailable:
		}
	}
	if len(a.NoRight) > 0 {
		a.Message = noRight(namespace, a.NoRight, h.account.binding(ctx))
	}
	return a, nil
}

func (h *Hub) availability(ctx context.Context, key apiobjects.Key) (subresources.ObjectState, error) {
	if state, ok := h.watched(key); ok {
		return state, nil
	}
	if state, ok := h.asked.get(key); ok {
		return state, nil
	}
	err := h.client.RESTClient().Get().Namespace(key.Namespace).Resource(strings.ToLower(string(key.Kind))+"s").Name(key.Name).
		SetHeader("Accept", metadataOnly).Do(ctx).Error()
	state := subresources.ObjectPresent
	switch {
	case apierrors.IsNotFound(err):
		state = subresources.ObjectNotFound
	case apierrors.IsForbidden(err):
		state = subresources.ObjectForbidden
	case err != nil:
		return "", err
	}
	h.asked.put(key, state)
	return state, nil
}

// watched is the state of an object that a node is connected for.
func (h *Hub) watched(key apiobjects.Key) (subresources.ObjectState, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o := h.objects[key]
	if o == nil || o.state == nil || o.state.State == subresources.ObjectUnavailable {
		return "", false
	}
	return o.state.State, true
}
