// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// A workload may have 100 events at once, and its flood takes none from another.
func TestEventBurst(t *testing.T) {
	written := make(chan *corev1.Event, 1000)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		event := &corev1.Event{}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("read: %v", err)
		}
		if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, event); err != nil {
			t.Errorf("decode: %v", err)
		}
		written <- event
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		w.WriteHeader(http.StatusCreated)
		if err := scheme.Codecs.LegacyCodec(corev1.SchemeGroupVersion).Encode(event, w); err != nil {
			t.Errorf("encode: %v", err)
		}
	}))
	defer api.Close()
	known, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	e, err := newEvents(t.Context(), &rest.Config{Host: api.URL, QPS: -1}, known, "node", false)
	if err != nil {
		t.Fatal(err)
	}
	defer e.close()
	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
	}
	for i := range 150 {
		// Each has its own reason: events of one reason are put together.
		e.Event(pod("flood"), "", corev1.EventTypeNormal, fmt.Sprintf("Reason%d", i), "m")
	}
	e.Event(pod("other"), "", corev1.EventTypeNormal, "Killed", "m")
	count := 0
	for event := range written {
		if event.InvolvedObject.Name == "other" {
			break
		}
		if want := fmt.Sprintf("Reason%d", count); event.Reason != want {
			t.Errorf("event %s, want %s", event.Reason, want)
		}
		count++
	}
	if count != 100 {
		t.Errorf("%d events of one workload were written, want 100", count)
	}
}
