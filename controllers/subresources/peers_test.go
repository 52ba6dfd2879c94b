// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package subresources

import (
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// replica is one of several managers that serve with a certificate.
type replica struct {
	*cluster
	handler *handler
	routes  http.Handler
	server  *httptest.Server
	// recognised counts those who ask it and have shown who they are.
	recognised recognitions
}

func newReplica(t *testing.T, certificate *tls.Certificate) *replica {
	t.Helper()
	r := &replica{cluster: withTokens()}
	r.handler = r.cluster.handler()
	r.handler.peers = newPeers(nil, func() *tls.Certificate { return certificate }, "system", "s")
	r.handler.peers.own = func() ([]net.Addr, error) { return nil, nil }
	r.routes = r.handler.routes(front(t))
	r.server = httptest.NewUnstartedServer(r.routes)
	r.server.TLS = &tls.Config{Certificates: []tls.Certificate{*certificate}, ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12}
	r.server.Config.ErrorLog = log.New(io.Discard, "", 0) // strangers are refused
	r.recognised.watch(r.server)
	r.server.StartTLS()
	t.Cleanup(r.server.Close)
	t.Cleanup(r.handler.peers.http.CloseIdleConnections)
	return r
}

// endpoints are those of the Service.
func endpoints(t *testing.T, replicas ...*replica) *fake.ClientBuilder {
	t.Helper()
	b := fake.NewClientBuilder()
	for i, r := range replicas {
		address := r.server.Listener.Addr().(*net.TCPAddr)
		b = b.WithObjects(&discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "s-" + string(rune('a'+i)), Labels: map[string]string{discoveryv1.LabelServiceName: "s"}},
			Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{address.IP.String()}}},
			Ports:      []discoveryv1.EndpointPort{{Port: new(int32(address.Port))}},
		})
	}
	return b
}

func certificateOf(t *testing.T) *tls.Certificate {
	t.Helper()
	pair := pairOf(t)
	certificate, err := tls.X509KeyPair(pair[corev1.TLSCertKey], pair[corev1.TLSPrivateKeyKey])
	if err != nil {
		t.Fatal(err)
	}
	return &certificate
}

// Who reads sees what shims posted to any replica, of a node that posted to two of them the newest; if one
// does not answer, a warning says so.
func TestReplicasShareUsage(t *testing.T) {
	certificate := certificateOf(t)
	one, two := newReplica(t, certificate), newReplica(t, certificate)
	all := endpoints(t, one, two).Build()
	one.handler.peers.reader, two.handler.peers.reader = all, all
	posted(t, one.routes, "a", usageBody("a", "web-a", "100m", 1))
	posted(t, two.routes, "a", usageBody("a", "web-a", "200m", 2))
	posted(t, two.routes, "b", usageBody("b", "web-b", "300m", 1))
	want := []string{"ns/web-a web a 200m 64Mi c=200m", "ns/web-b web b 300m 64Mi c=300m"}
	for name, r := range map[string]*replica{"one": one, "two": two} {
		got, header := readUsages(t, r.routes, "/namespaces/ns/workloadusages")
		if diff := cmp.Diff(want, got); diff != "" || header.Get("Warning") != "" {
			t.Errorf("replica %s: %s, warning %q", name, diff, header.Get("Warning"))
		}
		if got, _ := readUsages(t, r.routes, "/nodeusages"); len(got) != 2 {
			t.Errorf("replica %s: %q", name, got)
		}
	}
	if one.recognised.Load() == 0 || two.recognised.Load() == 0 {
		t.Error("the handshakes of replicas wait among those of strangers")
	}
	two.server.Close()
	got, header := readUsages(t, one.routes, "/workloadusages")
	if len(got) != 1 || !strings.HasPrefix(header.Get("Warning"), "299 - ") {
		t.Errorf("without the other replica: %q, warning %q", got, header.Get("Warning"))
	}
}

// Only a replica of this manager is answered as one, and asked as one.
func TestStrangerIsNoReplica(t *testing.T) {
	one, stranger := newReplica(t, certificateOf(t)), newReplica(t, certificateOf(t))
	posted(t, one.routes, "a", usageBody("a", "web-a", "100m", 1))
	posted(t, stranger.routes, "b", usageBody("b", "web-b", "1", 1))
	one.handler.peers.reader, stranger.handler.peers.reader = endpoints(t, stranger).Build(), endpoints(t, one).Build()
	for name, r := range map[string]*replica{"one": one, "a stranger": stranger} {
		if got, header := readUsages(t, r.routes, "/workloadusages"); len(got) != 1 || header.Get("Warning") == "" {
			t.Errorf("%s reads %q, warning %q", name, got, header.Get("Warning"))
		}
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
		InsecureSkipVerify: true, Certificates: []tls.Certificate{*certificateOf(t)},
	}}}
	defer client.CloseIdleConnections()
	req := get(t, "/")
	req.RequestURI, req.URL.Scheme, req.URL.Host, req.URL.Path = "", "https", one.server.Listener.Addr().String(), pathPeers+"/workloadusages"
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusUnauthorized {
		t.Errorf("a certificate of another is answered %d", res.StatusCode)
	}
	if one.recognised.Load() > 0 {
		t.Error("a stranger was recognised")
	}
}

// This replica does not ask itself, nor one that is not ready.
func TestHosts(t *testing.T) {
	slice := func(name, address string, ready *bool) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: "s"}},
			Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: ready}}},
			Ports:      []discoveryv1.EndpointPort{{Port: new(int32(9444))}},
		}
	}
	other := slice("other", "192.0.2.9", nil)
	other.Labels[discoveryv1.LabelServiceName] = "webhook"
	p := newPeers(fake.NewClientBuilder().WithObjects(
		slice("a", "192.0.2.1", nil), slice("b", "192.0.2.2", new(true)), slice("c", "192.0.2.3", new(false)), slice("d", "2001:db8::1", nil), other,
	).Build(), nil, "system", "s")
	p.own = func() ([]net.Addr, error) {
		return []net.Addr{&net.IPNet{IP: net.ParseIP("192.0.2.1"), Mask: net.CIDRMask(24, 32)}}, nil
	}
	got, err := p.hosts(t.Context())
	if diff := cmp.Diff([]string{"192.0.2.2:9444", "[2001:db8::1]:9444"}, got); diff != "" || err != nil {
		t.Errorf("%s, error %v", diff, err)
	}
}
