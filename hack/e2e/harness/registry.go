// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
)

// PrivateImage is the name of an image of the test program in a registry that lets one
// user in.
func (e *Env) PrivateImage(t *testing.T, user, password string) string {
	t.Helper()
	everything := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	open := httptest.NewServer(everything)
	t.Cleanup(open.Close)
	locked := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u, p, ok := r.BasicAuth(); !ok || u != user || p != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="private"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		everything.ServeHTTP(w, r)
	}))
	t.Cleanup(locked.Close)
	image := strings.TrimPrefix(locked.URL, "http://") + "/app:v1"
	if err := e.Stack.PushTo(t.Context(), open.URL, image); err != nil {
		t.Fatal(err)
	}
	return image
}
