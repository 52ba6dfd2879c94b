// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package httpaction

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestNewRequest(t *testing.T) {
	c := &corev1.Container{Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: 8080}}}
	plain := http.Header{"User-Agent": {"agent"}, "Accept": {"*/*"}}
	tests := map[string]struct {
		action     corev1.HTTPGetAction
		host       string
		wantURL    string
		wantHost   string
		wantHeader http.Header
	}{
		"as little as can be": {corev1.HTTPGetAction{Port: intstr.FromInt32(80)}, "10.0.0.1", "http://10.0.0.1:80", "", plain},
		"named port": {
			corev1.HTTPGetAction{Port: intstr.FromString("web"), Path: "/x?y=z", Scheme: corev1.URISchemeHTTPS}, "10.0.0.1",
			"https://10.0.0.1:8080/x?y=z", "", plain,
		},
		"its own host": {corev1.HTTPGetAction{Port: intstr.FromInt32(80), Host: "h.example"}, "", "http://h.example:80", "", plain},
		"IPv6":         {corev1.HTTPGetAction{Port: intstr.FromInt32(80)}, "fd00::1", "http://[fd00::1]:80", "", plain},
		"no URL":       {corev1.HTTPGetAction{Port: intstr.FromInt32(80), Path: "/%zz"}, "10.0.0.1", "http://10.0.0.1:80/%25zz", "", plain},
		"headers": {
			corev1.HTTPGetAction{Port: intstr.FromInt32(80), HTTPHeaders: []corev1.HTTPHeader{
				{Name: "x-a", Value: "1"}, {Name: "X-A", Value: "2"}, {Name: "Host", Value: "v.example"},
				{Name: "accept", Value: "text/plain"}, {Name: "user-agent", Value: "me"},
			}}, "10.0.0.1", "http://10.0.0.1:80", "v.example",
			http.Header{"X-A": {"1", "2"}, "Host": {"v.example"}, "Accept": {"text/plain"}, "User-Agent": {"me"}},
		},
		"no Accept": {
			corev1.HTTPGetAction{Port: intstr.FromInt32(80), HTTPHeaders: []corev1.HTTPHeader{{Name: "Accept"}}},
			"10.0.0.1", "http://10.0.0.1:80", "", http.Header{"User-Agent": {"agent"}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			request, err := NewRequest(t.Context(), &tc.action, c, tc.host, "agent")
			if err != nil {
				t.Fatal(err)
			}
			if request.Method != http.MethodGet || request.URL.String() != tc.wantURL || request.Host != tc.wantHost {
				t.Errorf("%s %s with host %q, want %s with %q", request.Method, request.URL, request.Host, tc.wantURL, tc.wantHost)
			}
			if diff := cmp.Diff(tc.wantHeader, request.Header); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPort(t *testing.T) {
	c := &corev1.Container{Ports: []corev1.ContainerPort{
		{Name: "web", ContainerPort: 8080}, {Name: "1", ContainerPort: 81}, {Name: "web", ContainerPort: 9090},
	}}
	for name, tc := range map[string]struct {
		value   intstr.IntOrString
		want    int
		wantErr string
	}{
		"number":             {value: intstr.FromInt32(80), want: 80},
		"name":               {value: intstr.FromString("web"), want: 8080},
		"number as a string": {value: intstr.FromString("90"), want: 90},
		"a name wins":        {value: intstr.FromString("1"), want: 81},
		"unknown name":       {value: intstr.FromString("api"), wantErr: "invalid syntax"},
		"zero":               {value: intstr.FromInt32(0), wantErr: "invalid port number: 0"},
		"too high":           {value: intstr.FromString("65536"), wantErr: "invalid port number: 65536"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Port(tc.value, c)
			if got != tc.want || (err != nil) != (tc.wantErr != "") || (err != nil && !strings.Contains(err.Error(), tc.wantErr)) {
				t.Errorf("port %d, error %v; want %d, %q", got, err, tc.want, tc.wantErr)
			}
		})
	}
}

func TestCheckRedirect(t *testing.T) {
	at := func(host string) *http.Request { return &http.Request{URL: &url.URL{Scheme: "http", Host: host}} }
	via := func(n int) []*http.Request {
		hops := make([]*http.Request, n)
		for i := range hops {
			hops[i] = at("a:80")
		}
		return hops
	}
	if err := CheckRedirect(at("b:80"), via(1)); !errors.Is(err, http.ErrUseLastResponse) {
		t.Errorf("another host: %v", err)
	}
	if err := CheckRedirect(at("a:81"), via(9)); err != nil {
		t.Errorf("another port of the same host: %v", err)
	}
	if err := CheckRedirect(at("a:80"), via(10)); err == nil || err.Error() != "stopped after 10 redirects" {
		t.Errorf("redirects without an end: %v", err)
	}
}
