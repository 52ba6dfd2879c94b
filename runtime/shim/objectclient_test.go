// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	apiobjects "github.com/managedworkload/managedworkload/api/objects"
)

func newTestClient(t *testing.T, handler http.HandlerFunc) *objectClient {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	c, err := newObjectClient(&rest.Config{Host: server.URL}, server.Client(), "node-1")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func accountToken(subject string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"sub":%q,"kubernetes.io":{"node":{"uid":"node-uid"},"serviceaccount":{"name":"sa","uid":"account-uid"}}}`, subject)) + ".c2ln"
}

func TestTokenRequest(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web-1"}, Spec: corev1.PodSpec{ServiceAccountName: "sa"}}
	good := accountToken("system:serviceaccount:ns:sa")
	soon := time.Now().Add(10 * time.Minute).UTC().Format(time.RFC3339)
	tests := map[string]struct {
		status       int
		spec, answer string
		want         string
		min, max     time.Duration
		wantErr      string
	}{
		"given": {
			spec: `{"expirationSeconds":3600}`, answer: `{"token":"` + good + `","expirationTimestamp":"2020-01-01T00:00:00Z"}`,
			want: good, min: time.Hour, max: time.Hour,
		},
		"given until a time": {
			spec: `{}`, answer: `{"token":"` + good + `","expirationTimestamp":"` + soon + `"}`,
			want: good, min: 9 * time.Minute, max: 10 * time.Minute,
		},
		"of another account": {
			spec: `{}`, answer: `{"token":"` + accountToken("system:serviceaccount:ns:default") + `"}`,
			wantErr: "a token of system:serviceaccount:ns:default, not of system:serviceaccount:ns:sa",
		},
		"without a token": {spec: `{}`, answer: `{}`, wantErr: "status.token: the manager's answer has no token"},
		"refused":         {status: http.StatusForbidden, wantErr: "the node has another UID"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var path string
			var sent map[string]any
			c := newTestClient(t, func(w http.ResponseWriter, r *http.Request) {
				path = r.Method + " " + r.URL.String()
				body, err := io.ReadAll(r.Body)
				if err != nil || json.Unmarshal(body, &sent) != nil {
					t.Errorf("body %q, %v", body, err)
				}
				w.Header().Set("Content-Type", "application/json")
				if tt.status != 0 {
					w.WriteHeader(tt.status)
					_, _ = fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"the node has another UID","reason":"Forbidden","code":403}`)
					return
				}
				_, _ = fmt.Fprintf(w, `{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","spec":%s,"status":%s}`, tt.spec, tt.answer)
			})
			got, err := c.token(t.Context(), pod, apiobjects.Token{Audience: "vault", ExpirationSeconds: 7200})
			if path != "POST /apis/subresources.managedworkload.dev/v1alpha1/namespaces/ns/nodeworkloads/web-1/token" {
				t.Errorf("request %s", path)
			}
			want := map[string]any{"audiences": []any{"vault"}, "expirationSeconds": 7200.0, "boundObjectRef": nil}
			if diff := cmp.Diff(want, sent["spec"]); diff != "" || sent["kind"] != "TokenRequest" || sent["apiVersion"] != "authentication.k8s.io/v1" {
				t.Errorf("sent %v (-want +got):\n%s", sent, diff)
			}
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Errorf("error %v, want %q in it", err, tt.wantErr)
				}
				return
			}
			if err != nil || got.Token != tt.want || got.Lifetime < tt.min || got.Lifetime > tt.max || got.Node != "node-uid" || got.Account != "account-uid" {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

func TestTheAPIServersOwnAudienceIsNotNamed(t *testing.T) {
	var body []byte
	c := newTestClient(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ = io.ReadAll(r.Body)
		w.WriteHeader(http.StatusNotFound)
	})
	_, err := c.token(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "x"}}, apiobjects.Token{ExpirationSeconds: 600})
	if !apierrors.IsNotFound(err) {
		t.Errorf("error %v", err)
	}
	if !strings.Contains(string(body), `"audiences":null`) {
		t.Errorf("sent %s", body)
	}
}
