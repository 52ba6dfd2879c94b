// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	apiobjects "github.com/managedworkload/managedworkload/api/objects"
)

// A key is looked for in objects that are there: in what a connected node gets, or by a question
// whose answer serves other templates, too. An object that is missing is Availability's to name.
func TestMissingKeys(t *testing.T) {
	conf := corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "conf"}, Data: map[string]string{"k": "1"}, BinaryData: map[string][]byte{"b": {0}},
	}
	var reads atomic.Int32
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		items := []any{}
		if r.URL.Query().Get("fieldSelector") == "metadata.name=conf" {
			items = append(items, conf)
		}
		list := map[string]any{"apiVersion": "v1", "kind": "ConfigMapList", "items": items}
		if strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadataList") {
			list["apiVersion"], list["kind"] = "meta.k8s.io/v1", "PartialObjectMetadataList"
		} else {
			reads.Add(1)
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(list); err != nil {
			t.Error(err)
		}
	}))
	defer api.Close()
	h := NewHub(kubernetes.NewForConfigOrDie(&rest.Config{Host: api.URL}).CoreV1(), nil, nil, &fakeShares{})
	ref := func(object, key string) apiobjects.KeyRef {
		return apiobjects.KeyRef{Ref: apiRef{Kind: apiobjects.ConfigMap, Name: object}, Name: key}
	}
	asked := []apiobjects.KeyRef{ref("conf", "b"), ref("conf", "k"), ref("conf", "l"), ref("gone", "k"), ref(apiobjects.RootCA, "ca.crt")}
	expect := func(when string, want ...apiobjects.KeyRef) {
		t.Helper()
		got, err := h.MissingKeys(t.Context(), "ns", asked)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: error %v, (-want +got):\n%s", when, err, diff)
		}
	}
	expect("at first", ref("conf", "l"))
	expect("asked again", ref("conf", "l"))
	if got := reads.Load(); got != 1 {
		t.Errorf("the object was read %d times", got)
	}
	key := apiKey{Namespace: "ns", Ref: asked[0].Ref}
	conf.Data = map[string]string{"l": "1"}
	o := &object{hub: h, key: key, subscribers: map[*subscription]bool{}}
	h.objects[key] = o
	if err := (intake{o, func() {}, func() {}}).Update(&conf); err != nil {
		t.Fatal(err)
	}
	expect("of a connected node", ref("conf", "k"))
}
