// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/managedworkload/managedworkload/controllers/certificate"
	"github.com/managedworkload/managedworkload/controllers/handshake"
)

// Those pass who know the path of now, or the one before it.
func TestOnlyKnown(t *testing.T) {
	h := onlyKnown(func() []string { return []string{"new", "old"} }, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	none := onlyKnown(func() []string { return nil }, h)
	for path, want := range map[string]int{
		Path + "/new": http.StatusOK, Path + "/old": http.StatusOK,
		Path + "/": http.StatusNotFound, Path + "/ne": http.StatusNotFound, Path + "/new/more": http.StatusNotFound, Path + "/other": http.StatusNotFound,
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, nil))
		if w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
		if closes := w.Header().Get("Connection") == "close"; closes != (want == http.StatusNotFound) {
			t.Errorf("%s: the connection is closed: %t", path, closes)
		}
	}
	w := httptest.NewRecorder()
	none.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, Path+"/", nil))
	if w.Code != http.StatusNotFound {
		t.Errorf("before there is a certificate: %d", w.Code)
	}
}

// The handshakes of those who have shown who they are have turns of their own, and only theirs.
func TestWhoIsRecognised(t *testing.T) {
	for name, tc := range map[string]struct {
		o    Options
		want bool
	}{
		"by a certificate": {Options{ClientCAFile: "ca.crt"}, true},
		"not at all":       {Options{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := &server{
				Source: certificate.NewSource(nil, certificate.Target{}), log: logr.Discard(), hooks: ctrlwebhook.NewServer(ctrlwebhook.Options{}),
			}
			s.register(scheme.Scheme, nil, nil, tc.o)
			recognised := false
			ctx := handshake.WithRecognition(t.Context(), func() { recognised = true })
			for _, path := range []string{Path, Path + "/guessed"} {
				s.hooks.WebhookMux().ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodPost, path, nil))
			}
			if recognised != tc.want {
				t.Errorf("recognised: %t", recognised)
			}
		})
	}
}

// The API server is given the path of the present certificate; what else stands in the configuration
// stays, and one that is right is not written.
func TestPathIsKept(t *testing.T) {
	config := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "hook"}}
	config.Webhooks = []admissionregistrationv1.ValidatingWebhook{{Name: "a", ClientConfig: admissionregistrationv1.WebhookClientConfig{
		CABundle: []byte("ca"), Service: &admissionregistrationv1.ServiceReference{Namespace: "system", Name: "hook", Port: new(int32(8443))},
	}}, {Name: "b", ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: new("https://elsewhere")}}}
	c := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(config).Build()
	tokens := []string{}
	k := &pathKeeper{reader: c, client: c, name: "hook", tokens: func() []string { return tokens }, log: logr.Discard()}
	if err := k.keep(t.Context()); err == nil {
		t.Error("no error before there is a certificate")
	}
	version := ""
	for _, tokens = range [][]string{{"one"}, {"one"}, {"two", "one"}} {
		if err := k.keep(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := &admissionregistrationv1.ValidatingWebhookConfiguration{}
		if err := c.Get(t.Context(), client.ObjectKey{Name: "hook"}, got); err != nil {
			t.Fatal(err)
		}
		want := config.DeepCopy()
		want.Webhooks[0].ClientConfig.Service.Path = new(Path + "/" + tokens[0])
		if diff := cmp.Diff(want.Webhooks, got.Webhooks); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tokens, diff)
		}
		if written := got.ResourceVersion != version; written != (tokens[0] == "two" || version == "") {
			t.Errorf("%q: written %t", tokens, written)
		}
		version = got.ResourceVersion
	}
}

// Of strangers only some are read at the same time.
func TestAtMost(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	h := atMost(1, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { entered <- struct{}{}; <-leave }))
	ask := func() int {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, Path, nil))
		return w.Code
	}
	first := make(chan int)
	go func() { first <- ask() }()
	<-entered
	if got := ask(); got != http.StatusTooManyRequests {
		t.Errorf("the second at the same time: %d", got)
	}
	close(leave)
	if got := <-first; got != http.StatusOK {
		t.Errorf("the first: %d", got)
	}
}
