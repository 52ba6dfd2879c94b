// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package subresources

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/subresources/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/contain"
	"github.com/managedworkload/managedworkload/controllers/handshake"
)

// A shim posts over the connection that the API server has to one of the replicas, and a person may
// read from another one. So who is asked by a person asks the other replicas, by the EndpointSlices
// of the Service. Replicas recognise each other by the certificate that they serve with: it is the
// same, and its key is in a Secret that only they read.

const (
	pathPeers = "/peers"
	// peerTimeout is how long the other replicas have to answer.
	peerTimeout = 2 * time.Second
	// hostsFor is how long it is not asked again which replicas there are.
	hostsFor = 2 * time.Second
	// mostPeers bounds how many are asked.
	mostPeers = 8
	// maxPeerAnswer bounds the answer of one.
	maxPeerAnswer = 256 << 20
	// partial is the warning that a person gets with an answer that may lack some nodes.
	partial = `299 - "a replica of the manager did not answer: the usage of some nodes may be missing"`
)

// peers are the other replicas of the manager.
type peers struct {
	reader client.Reader
	// certificate is the one that this replica serves with; nil before there is one.
	certificate        func() *tls.Certificate
	namespace, service string
	http               *http.Client
	// own are the addresses of this replica.
	own func() ([]net.Addr, error)

	mu sync.Mutex
	// known and knownErr are what was found last, at asked.
	known    []string
	knownErr error
	asked    time.Time
}

func newPeers(reader client.Reader, certificate func() *tls.Certificate, namespace, service string) *peers {
	p := &peers{reader: reader, certificate: certificate, namespace: namespace, service: service, own: net.InterfaceAddrs}
	p.http = &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{
			MinVersion: tls.VersionTLS12,
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				if own := p.certificate(); own != nil {
					return own, nil
				}
				return nil, errNoCertificate
			},
			// What is verified is that it is the very certificate of this replica.
			InsecureSkipVerify: true, //nolint:gosec // G402: see VerifyConnection
			VerifyConnection:   func(state tls.ConnectionState) error { return p.verify(&state) },
		},
		ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute,
	}}
	return p
}

var (
	errNoCertificate = errors.New("there is no certificate")
	errOther         = errors.New("the certificate is not that of this manager")
)

// verify is nil for a connection with a replica of this manager.
func (p *peers) verify(state *tls.ConnectionState) error {
	own := p.certificate()
	if own == nil || len(own.Certificate) == 0 || state == nil || len(state.PeerCertificates) == 0 {
		return errNoCertificate
	}
	if !bytes.Equal(own.Certificate[0], state.PeerCertificates[0].Raw) {
		return errOther
	}
	return nil
}

// admit answers other replicas by their routes, and everyone else by next.
func (p *peers) admit(routes, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if p.verify(req.TLS) == nil {
			handshake.Recognised(req.Context())
			routes.ServeHTTP(w, req)
			return
		}
		next.ServeHTTP(w, req)
	})
}

// peerRoutes answer with what this replica has.
func (h *handler) peerRoutes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pathPeers+"/"+resourceNodeUsages, func(w http.ResponseWriter, req *http.Request) {
		respond(w, http.StatusOK, h.usages.nodeUsages(req.FormValue("name")))
	})
	mux.HandleFunc("GET "+pathPeers+"/"+resourceWorkloadUsages, func(w http.ResponseWriter, req *http.Request) {
		respond(w, http.StatusOK, h.usages.workloadUsages(req.FormValue("namespace"), req.FormValue("name")))
	})
	return mux
}

// allNodeUsages are those that this replica and the others have; of one node the newest.
func (h *handler) allNodeUsages(w http.ResponseWriter, req *http.Request, name string) []v1alpha1.NodeUsage {
	all, complete := gather(req.Context(), h, resourceNodeUsages, url.Values{"name": {name}}, h.usages.nodeUsages(name))
	warn(w, complete)
	all = newest(all, func(u *v1alpha1.NodeUsage) (string, time.Time) { return u.Name, u.Timestamp.Time })
	slices.SortFunc(all, func(a, b v1alpha1.NodeUsage) int { return cmp.Compare(a.Name, b.Name) })
	return slices.CompactFunc(all, func(a, b v1alpha1.NodeUsage) bool { return a.Name == b.Name })
}

// allWorkloadUsages are those that this replica and the others have; of each node the newest.
func (h *handler) allWorkloadUsages(w http.ResponseWriter, req *http.Request, namespace, name string) []v1alpha1.WorkloadUsage {
	all, complete := gather(req.Context(), h, resourceWorkloadUsages, url.Values{"namespace": {namespace}, "name": {name}}, h.usages.workloadUsages(namespace, name))
	warn(w, complete)
	all = newest(all, func(u *v1alpha1.WorkloadUsage) (string, time.Time) { return u.NodeName, u.Timestamp.Time })
	slices.SortFunc(all, func(a, b v1alpha1.WorkloadUsage) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return slices.CompactFunc(all, func(a, b v1alpha1.WorkloadUsage) bool { return a.Namespace == b.Namespace && a.Name == b.Name })
}

func warn(w http.ResponseWriter, complete bool) {
	if !complete {
		w.Header().Add("Warning", partial)
	}
}

// newest leaves out what a node has posted again since, and what two replicas have of one post.
func newest[T any](all []T, of func(*T) (node string, at time.Time)) []T {
	latest := map[string]time.Time{}
	for i := range all {
		if node, at := of(&all[i]); at.After(latest[node]) {
			latest[node] = at
		}
	}
	return slices.DeleteFunc(all, func(item T) bool { node, at := of(&item); return at.Before(latest[node]) })
}

// gather adds what the other replicas have. complete is false if one did not answer.
func gather[T any](ctx context.Context, h *handler, resource string, query url.Values, own []T) (all []T, complete bool) {
	ctx, cancel := context.WithTimeout(ctx, peerTimeout)
	defer cancel()
	hosts, err := h.peers.latest(ctx)
	if err != nil {
		if h.said.TryAccept() {
			h.log.Info("Failed to find the other replicas of the manager", "reason", err.Error())
		}
		return own, false
	}
	answers, errs := make([][]T, len(hosts)), make([]error, len(hosts))
	var asking sync.WaitGroup
	for i, host := range hosts {
		asking.Go(func() {
			errs[i] = contain.Call(h.log, func() error { return h.peers.ask(ctx, host, resource, query, &answers[i]) })
		})
	}
	asking.Wait()
	if err := errors.Join(errs...); err != nil {
		if h.said.TryAccept() {
			h.log.Info("Failed to ask another replica of the manager", "reason", err.Error())
		}
		complete = false
	} else {
		complete = true
	}
	return slices.Concat(append([][]T{own}, answers...)...), complete
}

// ask asks one replica.
func (p *peers) ask(ctx context.Context, host, resource string, query url.Values, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+host+pathPeers+"/"+resource+"?"+query.Encode(), nil)
	if err != nil {
		return fmt.Errorf("ask %s: %w", host, err)
	}
	answer, err := p.http.Do(req)
	if err != nil {
		return fmt.Errorf("ask %s: %w", host, err)
	}
	defer answer.Body.Close() //nolint:errcheck // it was only read
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("ask %s: %s", host, answer.Status)
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxPeerAnswer)).Decode(into); err != nil {
		return fmt.Errorf("ask %s: %w", host, err)
	}
	return nil
}

// latest are the other replicas, as they were found within hostsFor: each read of usage asks for them.
func (p *peers) latest(ctx context.Context) ([]string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked.IsZero() || time.Since(p.asked) >= hostsFor {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), peerTimeout) // the answer is for others too
		defer cancel()
		p.known, p.knownErr = p.hosts(ctx)
		p.asked = time.Now()
	}
	return p.known, p.knownErr
}

// hosts are the addresses of the other replicas that are ready.
func (p *peers) hosts(ctx context.Context) ([]string, error) {
	found := &discoveryv1.EndpointSliceList{}
	if err := p.reader.List(ctx, found, client.InNamespace(p.namespace), client.MatchingLabels{discoveryv1.LabelServiceName: p.service}); err != nil {
		return nil, fmt.Errorf("list the EndpointSlices of Service %s: %w", p.service, err)
	}
	own, err := p.own()
	if err != nil {
		return nil, fmt.Errorf("list the addresses of this replica: %w", err)
	}
	var hosts []string
	for _, slice := range found.Items {
		for _, endpoint := range slice.Endpoints {
			if len(slice.Ports) == 0 || slice.Ports[0].Port == nil || len(endpoint.Addresses) == 0 || endpoint.Conditions.Ready != nil && !*endpoint.Conditions.Ready {
				continue
			}
			if address := endpoint.Addresses[0]; !isOwn(own, address) {
				hosts = append(hosts, net.JoinHostPort(address, strconv.Itoa(int(*slice.Ports[0].Port))))
			}
		}
	}
	slices.Sort(hosts)
	hosts = slices.Compact(hosts)
	return hosts[:min(len(hosts), mostPeers)], nil
}

func isOwn(own []net.Addr, address string) bool {
	ip := net.ParseIP(address)
	return slices.ContainsFunc(own, func(a net.Addr) bool {
		network, ok := a.(*net.IPNet)
		return ok && network.IP.Equal(ip)
	})
}
