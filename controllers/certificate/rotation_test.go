// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"net/http"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// cert-controller lists what the manager may only read by its name.
func TestListsAskForOneName(t *testing.T) {
	webhook := Target{Secret: types.NamespacedName{Name: "webhook"}, Trust: Trust{ValidatingWebhookConfiguration, "webhook"}}
	aggregated := Target{Secret: types.NamespacedName{Name: "subresources"}, Trust: Trust{APIService, "v1.group"}}
	for path, want := range map[string]struct {
		target Target
		query  string
	}{
		"/api/v1/namespaces/system/secrets?watch=true":                                      {webhook, "fieldSelector=metadata.name%3Dwebhook&watch=true"},
		"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations":             {webhook, "fieldSelector=metadata.name%3Dwebhook"},
		"/api/v1/namespaces/system/secrets/webhook":                                         {webhook, ""},
		"/apis/managedworkload.dev/v1alpha1/managedworkloads":                               {webhook, ""},
		"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/webhook?a=b": {webhook, "a=b"},
		"/api/v1/namespaces/system/secrets":                                                 {aggregated, "fieldSelector=metadata.name%3Dsubresources"},
		"/apis/apiregistration.k8s.io/v1/apiservices?watch=true":                            {aggregated, "fieldSelector=metadata.name%3Dv1.group&watch=true"},
	} {
		t.Run(path, func(t *testing.T) {
			seen := ""
			o := onlyNamed{target: &want.target, next: roundTripper(func(r *http.Request) (*http.Response, error) {
				seen = r.URL.RawQuery
				return &http.Response{Body: http.NoBody}, nil
			})}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://server"+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			res, err := o.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if seen != want.query {
				t.Errorf("query %q, want %q", seen, want.query)
			}
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
