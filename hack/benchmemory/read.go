// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// query is what a list or a watch asks for.
type query struct {
	namespace string
	labels    labels.Selector
	fields    fields.Selector
}

func parseQuery(namespace string, values url.Values) (q query, err error) {
	q.namespace = namespace
	if q.labels, err = labels.Parse(values.Get("labelSelector")); err != nil {
		return q, apierrors.NewBadRequest(err.Error())
	}
	if q.fields, err = fields.ParseSelector(values.Get("fieldSelector")); err != nil {
		return q, apierrors.NewBadRequest(err.Error())
	}
	return q, nil
}

func (q *query) matches(namespace, name string, l map[string]string) bool {
	return (q.namespace == "" || q.namespace == namespace) && q.labels.Matches(labels.Set(l)) &&
		q.fields.Matches(fields.Set{"metadata.name": name, "metadata.namespace": namespace})
}

// item is the object at a position of all objects of a kind, nil if it does not match,
// and more is whether there are objects from there on. The lazy ones come first.
func (s *store) item(c *collection, q *query, at int, keys []types.NamespacedName) (data []byte, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lazy := 0
	if c.lazy != nil {
		lazy = c.lazy.len()
	}
	if at < lazy {
		return c.lazyItem(q, at), true
	}
	if at-lazy >= len(keys) {
		return nil, false
	}
	o := c.stored[keys[at-lazy]]
	if o == nil || !q.matches(o.GetNamespace(), o.GetName(), o.GetLabels()) {
		return nil, true
	}
	return encode(o), true
}

// lazyItem is a lazy object, or what is stored in its place; s.mu is held.
func (c *collection) lazyItem(q *query, at int) []byte {
	key := c.lazy.key(at)
	l := map[string]string{}
	if !q.labels.Empty() {
		l = c.lazy.labelsOf(at)
	}
	if !q.matches(key.Namespace, key.Name, l) {
		return nil
	}
	if stored := c.stored[key]; stored != nil {
		return encode(stored)
	}
	return c.lazy.text(at)
}

// list answers with a page, whatever resourceVersion asks for.
func (s *store) list(w http.ResponseWriter, c *collection, q query, values url.Values) {
	at, _ := strconv.Atoi(values.Get("continue"))
	limit, _ := strconv.Atoi(values.Get("limit"))
	s.mu.Lock()
	version, keys := s.version, c.keys()
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	out := bufio.NewWriterSize(w, 1<<16)
	defer out.Flush() //nolint:errcheck // the client may be gone
	_, _ = fmt.Fprintf(out, `{"kind":%q,"apiVersion":%q,"items":[`, c.kind.Kind+"List", c.kind.GroupVersion().String())
	written, next := 0, ""
	for ; ; at++ {
		data, more := s.item(c, &q, at, keys)
		if !more {
			break
		}
		if limit > 0 && written == limit {
			next = strconv.Itoa(at)
			break
		}
		if data == nil {
			continue
		}
		if written > 0 {
			_ = out.WriteByte(',')
		}
		_, _ = out.Write(data)
		written++
	}
	_, _ = fmt.Fprintf(out, `],"metadata":{"resourceVersion":"%d","continue":%q}}`, version, next)
}

// watch answers with a stream of changes, after all objects if the client asks for them.
func (s *store) watch(w http.ResponseWriter, r *http.Request, c *collection, q query) {
	values := r.URL.Query()
	s.mu.Lock()
	version, keys, cut, oldest := s.version, c.keys(), c.cut, c.oldest
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	out := bufio.NewWriterSize(w, 1<<16)
	flush := func() { _ = out.Flush(); _ = http.NewResponseController(w).Flush() }
	defer flush()
	switch from, _ := strconv.ParseInt(values.Get("resourceVersion"), 10, 64); {
	case values.Get("sendInitialEvents") == "true":
		s.sendInitial(out, c, &q, keys)
		mark := &unstructured.Unstructured{}
		mark.SetGroupVersionKind(c.kind)
		mark.SetResourceVersion(strconv.FormatInt(version, 10))
		mark.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
		writeEvent(out, watch.Bookmark, encode(mark))
	case from > 0 && from < oldest:
		expired := apierrors.NewResourceExpired("too old resource version").Status()
		expired.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
		writeEvent(out, watch.Error, encode(asObject(&expired)))
		return
	case from > 0:
		version = from
	}
	for {
		s.mu.Lock()
		pending, news := c.since(version), s.news
		s.mu.Unlock()
		for _, e := range pending {
			version = e.version
			if q.matches(e.object.GetNamespace(), e.object.GetName(), e.object.GetLabels()) {
				writeEvent(out, e.kind, encode(e.object))
			}
		}
		flush()
		select {
		case <-r.Context().Done():
			return
		case <-cut:
			return
		case <-news:
		}
	}
}

func (s *store) sendInitial(out io.Writer, c *collection, q *query, keys []types.NamespacedName) {
	for at := 0; ; at++ {
		data, more := s.item(c, q, at, keys)
		if !more {
			return
		}
		if data != nil {
			writeEvent(out, watch.Added, data)
		}
	}
}

// since are the changes after a version; s.mu is held.
func (c *collection) since(version int64) []change {
	first := len(c.log)
	for first > 0 && c.log[first-1].version > version {
		first--
	}
	return c.log[first:len(c.log):len(c.log)]
}

func writeEvent(out io.Writer, kind watch.EventType, object []byte) {
	_, _ = fmt.Fprintf(out, `{"type":%q,"object":%s}`+"\n", kind, object) // the client may be gone
}
