// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

// server speaks as much of the Kubernetes API as the manager asks for.
type server struct {
	*store
	// withoutWatchList refuses watches that ask for all objects first: clients list then.
	withoutWatchList bool
}

// target is what a path names.
type target struct {
	collection *collection
	key        types.NamespacedName
	status     bool
}

// parse finds what a path names; nil if it is no object's.
func (s *server) parse(path string) *target {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	var gv schema.GroupVersion
	switch {
	case len(parts) > 2 && parts[0] == "api":
		gv, parts = schema.GroupVersion{Version: parts[1]}, parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		gv, parts = schema.GroupVersion{Group: parts[1], Version: parts[2]}, parts[3:]
	default:
		return nil
	}
	t := &target{}
	if len(parts) > 2 && parts[0] == "namespaces" {
		t.key.Namespace, parts = parts[1], parts[2:]
	}
	t.collection = s.kinds[gv.WithResource(parts[0])]
	if len(parts) > 1 {
		t.key.Name = parts[1]
	}
	t.status = len(parts) > 2 && parts[2] == "status"
	if t.collection == nil || len(parts) > 3 || len(parts) == 3 && !t.status {
		return nil
	}
	return t
}

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if t := s.parse(r.URL.Path); t != nil {
		s.serveObjects(w, r, t)
		return
	}
	if answer := s.discover(strings.Trim(r.URL.Path, "/")); answer != nil {
		answerJSON(w, http.StatusOK, answer)
		return
	}
	progress("The manager asks for %s %s, which is not served", r.Method, r.URL.Path)
	fail(w, apierrors.NewGenericServerResponse(http.StatusNotFound, r.Method, schema.GroupResource{}, "", "", 0, false))
}

func (s *server) serveObjects(w http.ResponseWriter, r *http.Request, t *target) {
	values := r.URL.Query()
	if r.Method == http.MethodGet && t.key.Name == "" {
		q, err := parseQuery(t.key.Namespace, values)
		switch {
		case err != nil:
			fail(w, err)
		case values.Get("watch") != "true" && values.Get("watch") != "1":
			s.list(w, t.collection, q, values)
		case s.withoutWatchList && values.Get("sendInitialEvents") == "true":
			fail(w, apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil))
		default:
			s.watch(w, r, t.collection, q)
		}
		return
	}
	o, err := s.serveObject(r, t, len(values["dryRun"]) > 0)
	if err != nil {
		fail(w, err)
		return
	}
	code := http.StatusOK
	if r.Method == http.MethodPost {
		code = http.StatusCreated
	}
	answerJSON(w, code, o.Object)
}

// serveObject answers a request about one object.
func (s *server) serveObject(r *http.Request, t *target, dryRun bool) (*unstructured.Unstructured, error) {
	switch r.Method {
	case http.MethodGet:
		s.mu.Lock()
		defer s.mu.Unlock()
		if o := t.collection.get(t.key); o != nil {
			return o, nil
		}
		return nil, apierrors.NewNotFound(t.collection.resource, t.key.Name)
	case http.MethodDelete:
		return s.remove(t.collection, t.key)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	switch contentType := r.Header.Get("Content-Type"); r.Method {
	case http.MethodPost:
		o, err := decode(body, contentType)
		if err != nil || dryRun || t.collection.silent {
			return o, err
		}
		if t.collection.namespaced {
			o.SetNamespace(t.key.Namespace)
		}
		return s.create(t.collection, o)
	case http.MethodPut:
		return s.change(t.collection, t.key, t.status, func(*unstructured.Unstructured) (*unstructured.Unstructured, error) {
			return decode(body, contentType)
		})
	case http.MethodPatch:
		return s.change(t.collection, t.key, t.status, func(old *unstructured.Unstructured) (*unstructured.Unstructured, error) {
			return patch(old, body, contentType)
		})
	}
	return nil, apierrors.NewMethodNotSupported(t.collection.resource, r.Method)
}

// decode reads an object from JSON, or from protobuf if it is a kind of Kubernetes.
func decode(body []byte, contentType string) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	if !strings.Contains(contentType, "protobuf") {
		return o, utiljson.Unmarshal(body, &o.Object)
	}
	typed, _, err := clientgoscheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	kind := typed.GetObjectKind().GroupVersionKind()
	if o = asObject(typed); o.GetKind() == "" {
		o.SetGroupVersionKind(kind)
	}
	return o, nil
}

// asObject converts what is made of structs.
func asObject(typed any) *unstructured.Unstructured {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		panic(err) // a kind of Kubernetes
	}
	return &unstructured.Unstructured{Object: content}
}

// patch applies a JSON patch or a merge patch.
func patch(old *unstructured.Unstructured, body []byte, contentType string) (*unstructured.Unstructured, error) {
	var next []byte
	var err error
	switch types.PatchType(contentType) {
	case types.MergePatchType:
		next, err = jsonpatch.MergePatch(encode(old), body)
	case types.JSONPatchType:
		var p jsonpatch.Patch
		if p, err = jsonpatch.DecodePatch(body); err == nil {
			next, err = p.Apply(encode(old))
		}
	default:
		return nil, apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "PATCH", schema.GroupResource{}, old.GetName(), contentType, 0, true)
	}
	if err != nil {
		return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "PATCH", schema.GroupResource{}, old.GetName(), err.Error(), 0, true)
	}
	o := &unstructured.Unstructured{}
	return o, utiljson.Unmarshal(next, &o.Object)
}

// discover answers what says which kinds there are; nil for other paths.
func (s *server) discover(path string) any {
	groups := map[string]metav1.APIGroup{}
	lists := map[string]*metav1.APIResourceList{}
	for gvr, c := range s.kinds {
		gv := gvr.GroupVersion().String()
		if lists[gv] == nil {
			lists[gv] = &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv}
		}
		lists[gv].APIResources = append(lists[gv].APIResources, metav1.APIResource{
			Name: gvr.Resource, Kind: c.kind.Kind, Namespaced: c.namespaced,
			Verbs: metav1.Verbs{"create", "delete", "get", "list", "patch", "update", "watch"},
		})
		version := metav1.GroupVersionForDiscovery{GroupVersion: gv, Version: gvr.Version}
		groups[gvr.Group] = metav1.APIGroup{
			TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}, Name: gvr.Group,
			Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
		}
	}
	rest, isGroup := strings.CutPrefix(path, "apis/")
	switch {
	case path == "api":
		return &metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions", APIVersion: "v1"}, Versions: []string{"v1"}}
	case path == "apis":
		all := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
		for name, group := range groups {
			if name != "" {
				all.Groups = append(all.Groups, group)
			}
		}
		return all
	case path == "api/v1":
		return lists["v1"]
	case isGroup && lists[rest] != nil:
		return lists[rest]
	case isGroup && groups[rest].Name != "":
		return groups[rest]
	}
	return nil
}

func answerJSON(w http.ResponseWriter, code int, answer any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(answer) // the client may be gone
}

// fail answers with an error.
func fail(w http.ResponseWriter, err error) {
	var known apierrors.APIStatus
	if !errors.As(err, &known) {
		known = apierrors.NewInternalError(fmt.Errorf("bench: %w", err))
	}
	st := known.Status()
	st.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	answerJSON(w, int(st.Code), &st)
}
