// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	apiobjects "github.com/managedworkload/managedworkload/api/objects"
	"github.com/managedworkload/managedworkload/api/subresources/v1alpha1"
)

// ErrNotReceived says that nothing is known yet of an object or a token: the manager is
// away, or has not sent it. It does not say that there is none.
var ErrNotReceived = errors.New("has not been received from the manager yet")

// Key names an object.
type Key struct {
	Namespace string
	apiobjects.Ref
}

// Store holds the objects of a node as the manager sent them last. It is safe for
// concurrent use. What it returns is shared and must not be changed.
type Store struct {
	changed func(namespace string, refs []apiobjects.Ref)
	needed  func(Key) bool

	mu      sync.RWMutex
	objects map[Key]entry
}

// entry is what is known of an object. It is replaced, never changed.
type entry struct {
	state   v1alpha1.ObjectState
	message string
	uid     types.UID
	version string
	// One of them is set where state is Present, none for a service account.
	configMap *corev1.ConfigMap
	secret    *corev1.Secret
	// left: the manager does not send it any more, and something that runs may need it.
	left bool
}

// NewStore returns an empty store. changed is called after each batch, once for each
// namespace, with all objects of it that are not as before; nil is allowed.
func NewStore(changed func(namespace string, refs []apiobjects.Ref)) *Store {
	if changed == nil {
		changed = func(string, []apiobjects.Ref) {}
	}
	return &Store{changed: changed, needed: func(Key) bool { return false }, objects: map[Key]entry{}}
}

// KeepWhile has objects kept that the manager does not send any more, as long as needed says
// so: a template that waits has other objects than what runs meanwhile, and may be started
// again. It is called before all else.
func (s *Store) KeepWhile(needed func(Key) bool) { s.needed = needed }

// KeyOf returns which object a message is about.
func KeyOf(sent *v1alpha1.NodeObject) (Key, error) {
	kind := apiobjects.Kind(sent.ObjectKind)
	switch {
	case kind != apiobjects.ConfigMap && kind != apiobjects.Secret && kind != apiobjects.ServiceAccount:
		return Key{}, fmt.Errorf("objectKind: %q is neither ConfigMap, Secret nor ServiceAccount", sent.ObjectKind)
	case sent.ObjectName == "":
		return Key{}, errors.New("objectName: is empty")
	case sent.Namespace == "":
		return Key{}, errors.New("metadata.namespace: is empty")
	}
	return Key{sent.Namespace, apiobjects.Ref{Kind: kind, Name: sent.ObjectName}}, nil
}

// Apply takes what the manager has sent. A message that cannot be understood is left out;
// the error names it, and the others count.
func (s *Store) Apply(batch ...*v1alpha1.NodeObject) error {
	changed := map[string]map[apiobjects.Ref]bool{}
	var errs []error
	s.mu.Lock()
	for _, sent := range batch {
		key, err := KeyOf(sent)
		if err != nil {
			errs = append(errs, fmt.Errorf("object %q: %w", sent.Name, err))
			continue
		}
		before, known := s.objects[key]
		after, err := before.next(sent)
		if err != nil {
			errs = append(errs, fmt.Errorf("object %q: %w", sent.Name, err))
			continue
		}
		after.left = false
		s.objects[key] = after
		if known && !before.left && after.same(before) {
			continue
		}
		if changed[key.Namespace] == nil {
			changed[key.Namespace] = map[apiobjects.Ref]bool{}
		}
		changed[key.Namespace][key.Ref] = true
	}
	s.mu.Unlock()
	for _, namespace := range slices.Sorted(maps.Keys(changed)) {
		s.changed(namespace, slices.SortedFunc(maps.Keys(changed[namespace]), apiobjects.Compare))
	}
	return errors.Join(errs...)
}

// Forget drops an object that is not the node's any more, unless it is needed.
func (s *Store) Forget(key Key) { s.drop([]Key{key}) }

// Replace drops all objects but those that were sent, and those that are needed: a watch has
// sent all it has.
func (s *Store) Replace(sent map[Key]bool) {
	s.drop(s.keys(func(key Key, _ entry) bool { return !sent[key] }))
}

// Sweep drops what was kept and is not needed any more.
func (s *Store) Sweep() { s.drop(s.keys(func(_ Key, e entry) bool { return e.left })) }

// keys are those of the entries that match.
func (s *Store) keys(match func(Key, entry) bool) []Key {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var keys []Key
	for key, e := range s.objects {
		if match(key, e) {
			keys = append(keys, key)
		}
	}
	return keys
}

// drop drops what is not needed, and marks the rest.
func (s *Store) drop(keys []Key) {
	needed := map[Key]bool{}
	for _, key := range keys {
		needed[key] = s.needed(key)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, isNeeded := range needed {
		e, known := s.objects[key]
		switch {
		case known && isNeeded:
			e.left = true
			s.objects[key] = e
		case known:
			delete(s.objects, key)
		}
	}
}

// next is what is known after a message. What cannot be read is as it was.
func (e entry) next(sent *v1alpha1.NodeObject) (entry, error) {
	after := entry{state: sent.State, message: sent.Message, uid: sent.ObjectUID, version: sent.ObjectVersion}
	switch sent.State {
	case v1alpha1.ObjectPresent:
		if after.same(e) {
			return e, nil
		}
		switch apiobjects.Kind(sent.ObjectKind) {
		case apiobjects.ConfigMap:
			after.configMap = configMapOf(sent)
		case apiobjects.Secret:
			after.secret = secretOf(sent)
		case apiobjects.ServiceAccount:
		}
		return after, nil
	case v1alpha1.ObjectNotFound, v1alpha1.ObjectForbidden:
		return after, nil
	case v1alpha1.ObjectUnavailable:
		if e.state != "" && e.state != v1alpha1.ObjectUnavailable {
			return e, nil
		}
		return after, nil
	}
	return e, fmt.Errorf("state: %q is unknown", sent.State)
}

// same is whether two entries say the same.
func (e entry) same(other entry) bool {
	return e.state == other.state && e.message == other.message && e.uid == other.uid && e.version == other.version
}

func (s *Store) find(namespace string, ref apiobjects.Ref) entry {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.objects[Key{namespace, ref}]
}

// ConfigMap returns a ConfigMap, or why there is none to use.
func (s *Store) ConfigMap(namespace, name string) (*corev1.ConfigMap, error) {
	ref := apiobjects.Ref{Kind: apiobjects.ConfigMap, Name: name}
	e := s.find(namespace, ref)
	return e.configMap, e.err(ref)
}

// Secret returns a Secret, or why there is none to use.
func (s *Store) Secret(namespace, name string) (*corev1.Secret, error) {
	ref := apiobjects.Ref{Kind: apiobjects.Secret, Name: name}
	e := s.find(namespace, ref)
	return e.secret, e.err(ref)
}

// AccountUID returns the UID of a service account, "" if there is none of that name. known is false
// where the manager has not said.
func (s *Store) AccountUID(namespace, name string) (uid types.UID, known bool) {
	e := s.find(namespace, apiobjects.AccountRef(name))
	return e.uid, e.state == v1alpha1.ObjectPresent || e.state == v1alpha1.ObjectNotFound
}

// Known is whether an object is there, or is definitely not, and is kept up to date.
func (s *Store) Known(namespace string, ref apiobjects.Ref) bool {
	e := s.find(namespace, ref)
	if e.left {
		return false
	}
	return e.state == v1alpha1.ObjectPresent || e.state == v1alpha1.ObjectNotFound
}

// upToDate is why what is there of an object may not be what the API has, nil if it is.
func (s *Store) upToDate(namespace string, ref apiobjects.Ref) error {
	if s.find(namespace, ref).left {
		return entry{}.err(ref)
	}
	return nil
}

// err is why an object cannot be used; nil if it can. That there is none has the
// kubelet's words. (kubelet util/manager/watch_based_manager.go:Get)
func (e entry) err(ref apiobjects.Ref) error {
	resource := strings.ToLower(string(ref.Kind))
	switch e.state {
	case v1alpha1.ObjectPresent:
		return nil
	case v1alpha1.ObjectNotFound:
		return apierrors.NewNotFound(corev1.Resource(resource), ref.Name)
	case v1alpha1.ObjectForbidden:
		if e.message == "" {
			return fmt.Errorf("%s %q may not be read by the manager", resource, ref.Name)
		}
		return errors.New(e.message)
	case v1alpha1.ObjectUnavailable:
	}
	if e.message != "" {
		return fmt.Errorf("%s %q %w: %s", resource, ref.Name, ErrNotReceived, e.message)
	}
	return fmt.Errorf("%s %q %w", resource, ref.Name, ErrNotReceived)
}
