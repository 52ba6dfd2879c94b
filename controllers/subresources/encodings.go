// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package subresources

import (
	"encoding/json"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/subresources/v1alpha1"
)

// encodings are objects as JSON while they are sent: a large Secret that all nodes refer to is
// encoded once when it changes, and held once. Nothing stays when it is sent.
type encodings struct {
	mu     sync.Mutex
	byName map[edition]*encoding
}

// edition is one version of an object.
type edition struct {
	namespace, name, version string
	uid                      types.UID
}

// encoding is an object as JSON, for as many as send it.
type encoding struct {
	once    sync.Once
	content []byte
	err     error
	senders int
}

func newEncodings() *encodings { return &encodings{byName: map[edition]*encoding{}} }

// of is an object as JSON, until done is called.
func (e *encodings) of(object runtime.Object) (content []byte, done func(), err error) {
	o, ok := object.(*v1alpha1.NodeObject)
	if !ok || o.ResourceVersion == "" {
		content, err = encode(object)
		return content, func() {}, err
	}
	key := edition{o.Namespace, o.Name, o.ResourceVersion, o.ObjectUID}
	shared := e.join(key)
	shared.once.Do(func() { shared.content, shared.err = encode(o) })
	return shared.content, func() { e.leave(key, shared) }, shared.err
}

func (e *encodings) join(key edition) *encoding {
	e.mu.Lock()
	defer e.mu.Unlock()
	shared := e.byName[key]
	if shared == nil {
		shared = &encoding{}
		e.byName[key] = shared
	}
	shared.senders++
	return shared
}

func (e *encodings) leave(key edition, shared *encoding) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if shared.senders--; shared.senders == 0 {
		delete(e.byName, key)
	}
}

func encode(object runtime.Object) ([]byte, error) {
	if o, ok := object.(*v1alpha1.NodeObject); ok {
		named := *o // the sender's is shared
		named.TypeMeta = metav1.TypeMeta{Kind: "NodeObject", APIVersion: v1alpha1.GroupVersion.String()}
		object = &named
	}
	content, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encode an event: %w", err)
	}
	return content, nil
}
