// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// store holds objects as an API server does: versions, generations, finalizers. Objects
// in it are never changed, only replaced.
type store struct {
	mu      sync.Mutex
	version int64
	kinds   map[schema.GroupVersionResource]*collection
	// created is called for each new object, without the lock.
	created func(*unstructured.Unstructured)
	// writes counts what changed something, by verb and resource.
	writes map[string]int
	// news is closed at each change.
	news chan struct{}
}

// collection are the objects of a kind.
type collection struct {
	kind       schema.GroupVersionKind
	resource   schema.GroupResource
	namespaced bool
	stored     map[types.NamespacedName]*unstructured.Unstructured
	// lazy are objects that are made when they are read; one in stored goes before.
	lazy *pattern
	// log are the changes since the beginning, and oldest is the version from which on a
	// watch may begin.
	log    []change
	oldest int64
	// cut is closed when all watches are to end.
	cut chan struct{}
	// silent: objects are not kept, because nothing reads them.
	silent bool
}

type change struct {
	version int64
	kind    watch.EventType
	object  *unstructured.Unstructured
}

func newStore() *store {
	return &store{
		version: 1000, kinds: map[schema.GroupVersionResource]*collection{}, created: func(*unstructured.Unstructured) {},
		writes: map[string]int{}, news: make(chan struct{}),
	}
}

// add adds a kind.
func (s *store) add(gv schema.GroupVersion, resource, kind string, namespaced bool) *collection {
	c := &collection{
		kind: gv.WithKind(kind), resource: gv.WithResource(resource).GroupResource(), namespaced: namespaced,
		stored: map[types.NamespacedName]*unstructured.Unstructured{}, cut: make(chan struct{}),
	}
	s.kinds[gv.WithResource(resource)] = c
	return c
}

// get is an object, nil if there is none; s.mu is held.
func (c *collection) get(key types.NamespacedName) *unstructured.Unstructured {
	if o := c.stored[key]; o != nil || c.lazy == nil {
		return o
	}
	if i, found := c.lazy.index[key]; found {
		return c.lazy.object(i)
	}
	return nil
}

// keys are those of all stored objects that are not lazy, in order; s.mu is held.
func (c *collection) keys() []types.NamespacedName {
	return slices.SortedFunc(func(yield func(types.NamespacedName) bool) {
		for key := range maps.Keys(c.stored) {
			if c.lazy != nil {
				if _, lazy := c.lazy.index[key]; lazy {
					continue
				}
			}
			if !yield(key) {
				return
			}
		}
	}, func(a, b types.NamespacedName) int {
		if a.String() < b.String() {
			return -1
		}
		return 1
	})
}

// commit stores an object, or removes it, and tells the watches; s.mu is held.
func (s *store) commit(c *collection, event watch.EventType, o *unstructured.Unstructured) {
	s.version++
	o.SetResourceVersion(strconv.FormatInt(s.version, 10))
	key := types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
	if event == watch.Deleted {
		delete(c.stored, key)
	} else {
		c.stored[key] = o
	}
	c.log = append(c.log, change{s.version, event, o})
	s.writes[string(event)+" "+c.resource.Resource]++
	close(s.news)
	s.news = make(chan struct{})
}

// create stores a new object.
func (s *store) create(c *collection, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	s.mu.Lock()
	if c.get(types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}) != nil {
		s.mu.Unlock()
		return nil, apierrors.NewAlreadyExists(c.resource, o.GetName())
	}
	o.SetGroupVersionKind(c.kind)
	o.SetUID(types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", s.version)))
	o.SetCreationTimestamp(metav1.NewTime(time.Now()))
	o.SetGeneration(1)
	s.commit(c, watch.Added, o)
	s.mu.Unlock()
	s.created(o)
	return o, nil
}

// change replaces an object by what f makes of it. Only its status is taken if status.
func (s *store) change(c *collection, key types.NamespacedName, status bool, f func(*unstructured.Unstructured) (*unstructured.Unstructured, error)) (*unstructured.Unstructured, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := c.get(key)
	if old == nil {
		return nil, apierrors.NewNotFound(c.resource, key.Name)
	}
	next, err := f(old.DeepCopy())
	if err != nil {
		return nil, err
	}
	if v := next.GetResourceVersion(); v != "" && v != old.GetResourceVersion() {
		return nil, apierrors.NewConflict(c.resource, key.Name, errors.New("the object has been modified"))
	}
	next = merge(old, next, status)
	if equality.Semantic.DeepEqual(old.Object, next.Object) {
		return old, nil
	}
	event := watch.Modified
	if next.GetDeletionTimestamp() != nil && len(next.GetFinalizers()) == 0 {
		event = watch.Deleted
	}
	s.commit(c, event, next)
	return next, nil
}

// merge is what an update makes of an object.
func merge(old, next *unstructured.Unstructured, status bool) *unstructured.Unstructured {
	base, part := next.DeepCopy(), old.Object["status"]
	if status {
		base, part = old.DeepCopy(), next.Object["status"]
	}
	delete(base.Object, "status")
	if part != nil {
		base.Object["status"] = part
	}
	base.SetUID(old.GetUID())
	base.SetResourceVersion(old.GetResourceVersion())
	base.SetCreationTimestamp(old.GetCreationTimestamp())
	base.SetDeletionTimestamp(old.GetDeletionTimestamp())
	base.SetGeneration(old.GetGeneration())
	if !equality.Semantic.DeepEqual(old.Object["spec"], base.Object["spec"]) {
		base.SetGeneration(old.GetGeneration() + 1)
	}
	return base
}

// remove deletes an object, or marks it while it has finalizers.
func (s *store) remove(c *collection, key types.NamespacedName) (*unstructured.Unstructured, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := c.get(key)
	if old == nil {
		return nil, apierrors.NewNotFound(c.resource, key.Name)
	}
	if old.GetDeletionTimestamp() != nil && len(old.GetFinalizers()) > 0 {
		return old, nil
	}
	next, event := old.DeepCopy(), watch.Deleted
	if len(old.GetFinalizers()) > 0 {
		event = watch.Modified
		next.SetDeletionTimestamp(new(metav1.Now()))
		next.SetGeneration(old.GetGeneration() + 1)
	}
	s.commit(c, event, next)
	return next, nil
}

// forget ends all watches. Those that continue from where they were get the answer that it
// is too long ago, as from an API server that was restarted: clients list again.
func (s *store) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	for _, c := range s.kinds {
		c.oldest, c.log = s.version, nil
		close(c.cut)
		c.cut = make(chan struct{})
	}
}

// encode is an object as JSON.
func encode(o *unstructured.Unstructured) []byte {
	data, err := json.Marshal(o.Object)
	if err != nil {
		panic(err) // it was read from JSON
	}
	return data
}
