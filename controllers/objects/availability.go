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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	apiobjects "github.com/managedworkload/managedworkload/api/objects"
	subresources "github.com/managedworkload/managedworkload/api/subresources/v1alpha1"
)

const (
	// Recheck is how long it is believed that an object is missing or may not be read.
	Recheck = 30 * time.Second
	// RecheckPresent is how long it is believed that an object is there.
	RecheckPresent = 5 * time.Minute
	// askTimeout bounds all questions about one template, and a question that takes slow of it
	// is the last one about objects of its kind for Recheck: the API server cannot read them.
	askTimeout = 2 * time.Second
	slow       = askTimeout / 2
)

// metadataOnly is what the API server answers with: no content of any object.
const metadataOnly = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1," +
	"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

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

// answer is what the API server said of an object at a time, or why it did not.
type answer struct {
	state subresources.ObjectState
	err   error
	at    time.Time
}

func (a answer) fresh(now time.Time) bool {
	if a.err == nil && a.state == subresources.ObjectPresent {
		return now.Sub(a.at) < RecheckPresent
	}
	return now.Sub(a.at) < Recheck
}

// asked are answers about objects that no node is connected for.
type asked struct {
	mu      sync.Mutex
	answers map[apiobjects.Key]answer
	// late are the kinds of which the API server did not answer in time.
	late  map[apiobjects.Kind]answer
	swept time.Time
}

func (a *asked) get(key apiobjects.Key) (answer, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if late, ok := a.late[key.Kind]; ok && late.fresh(now) {
		return late, true
	}
	known, ok := a.answers[key]
	return known, ok && known.fresh(now)
}

// put remembers an answer, and what was asked for longer than the API server needs.
func (a *asked) put(key apiobjects.Key, got answer, took time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if got.err != nil && took >= slow {
		if a.late == nil {
			a.late = map[apiobjects.Kind]answer{}
		}
		a.late[key.Kind] = got
		return
	}
	if got.at.Sub(a.swept) > RecheckPresent {
		a.swept = got.at
		for key, known := range a.answers {
			if !known.fresh(got.at) {
				delete(a.answers, key)
			}
		}
	}
	if a.answers == nil {
		a.answers = map[apiobjects.Key]answer{}
	}
	a.answers[key] = got
}

// Availability reports which objects of a namespace no node would get. It reads metadata only,
// and asks the API server about what it does not know. Of service accounts it says what it knows of
// those whose tokens a connected node needs. The error is one of asking.
func (h *Hub) Availability(ctx context.Context, namespace string, refs []apiobjects.Ref) (Availability, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var a Availability
	for _, ref := range refs {
		if why := h.noPlace(apiobjects.Key{Namespace: namespace, Ref: ref}); why != "" {
			a.TooMuch = why
			continue
		}
		if ref.Kind == apiobjects.ServiceAccount {
			if state, _ := h.watched(apiobjects.Key{Namespace: namespace, Ref: ref}); state == subresources.ObjectNotFound {
				a.NotFound = append(a.NotFound, ref)
			}
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
	known, ok := h.asked.get(key)
	if !ok {
		begun := time.Now()
		state, err := h.ask(ctx, key)
		known = answer{state, err, time.Now()}
		h.asked.put(key, known, known.at.Sub(begun))
	}
	return known.state, known.err
}

// ask lists the object as the hub does: a right to get is not enough.
func (h *Hub) ask(ctx context.Context, key apiobjects.Key) (subresources.ObjectState, error) {
	found := &metav1.PartialObjectMetadataList{}
	err := h.client.RESTClient().Get().Namespace(key.Namespace).Resource(strings.ToLower(string(key.Kind))+"s").
		Param("fieldSelector", fields.OneTermEqualSelector(metav1.ObjectNameField, key.Name).String()).Param("limit", "1").
		SetHeader("Accept", metadataOnly).Do(ctx).Into(found)
	switch {
	case apierrors.IsForbidden(err):
		return subresources.ObjectForbidden, nil
	case err != nil:
		return "", fmt.Errorf("list: %w", err)
	case len(found.Items) == 0:
		return subresources.ObjectNotFound, nil
	}
	return subresources.ObjectPresent, nil
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
