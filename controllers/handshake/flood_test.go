// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package handshake

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
)

const (
	strangers = 400
	longest   = time.Second
)

// served is a server on loopback and a client's configuration for it.
type served struct {
	address string
	trust   *tls.Config
}

func serve(t *testing.T) served {
	t.Helper()
	certified := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	certified.Close()
	inner, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, Certificates: certified.TLS.Certificates}
	done := make(chan error, 1)
	go func() {
		done <- Serve(ctx, logr.Discard(), inner, config, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			Recognised(req.Context())
			w.WriteHeader(http.StatusNoContent)
		}))
	}()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	trust := certified.Client().Transport.(*http.Transport).TLSClientConfig
	trust.ServerName = "example.com" // the certificate has this name
	return served{inner.Addr().String(), trust}
}

func dialerFrom(source string) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}
}

func (s served) client(t *testing.T, source string) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: s.trust.Clone(), DialContext: dialerFrom(source).DialContext, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// took are the median times of an answer, over an open connection and over a new one.
func (s served) took(t *testing.T, source string) (open, fresh time.Duration) {
	t.Helper()
	const rounds = 15
	old, renewed := s.client(t, source), s.client(t, source)
	s.answer(t, old)
	var olds, news [rounds]time.Duration
	for i := range rounds {
		olds[i] = s.answer(t, old)
		news[i] = s.answer(t, renewed)
		renewed.CloseIdleConnections()
	}
	slices.Sort(olds[:])
	slices.Sort(news[:])
	return olds[rounds/2], news[rounds/2]
}

// answer returns how long an answer took; longest, where there was none by then.
func (s served) answer(t *testing.T, client *http.Client) time.Duration {
	t.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+s.address, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(req)
	if ctx.Err() != nil {
		return longest
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.ProtoMajor != 2 {
		t.Fatalf("answered by %s", res.Proto)
	}
	return time.Since(began)
}

// hello is what a client says first. To say it again and again costs the client nothing, and the
// server a signature each time.
func (s served) hello(t *testing.T) []byte {
	t.Helper()
	ours, theirs := net.Pipe()
	defer ours.Close() //nolint:errcheck // a test
	go func() {
		defer theirs.Close() //nolint:errcheck // a test
		_ = tls.Client(theirs, s.trust).HandshakeContext(t.Context())
	}()
	message := make([]byte, 1<<14)
	n, err := ours.Read(message)
	if err != nil {
		t.Fatal(err)
	}
	return message[:n]
}

// flood begins handshakes from so many addresses, and returns once all connections have said hello.
func (s served) flood(t *testing.T, addresses []string) (end func()) {
	t.Helper()
	hello := s.hello(t)
	ctx, cancel := context.WithCancel(t.Context())
	var begun, all sync.WaitGroup
	begun.Add(strangers)
	for i := range strangers {
		from := dialerFrom(addresses[i%len(addresses)])
		all.Go(func() {
			for said := false; ctx.Err() == nil; {
				c, err := from.DialContext(ctx, "tcp", s.address)
				if err != nil {
					continue
				}
				_ = c.(*net.TCPConn).SetLinger(0) // ports are free again at once
				unblock := context.AfterFunc(ctx, func() { _ = c.Close() })
				_, _ = c.Write(hello)
				if !said {
					said = true
					begun.Done()
				}
				_, _ = io.ReadAtLeast(c, make([]byte, 1), 1)
				unblock()
				_ = c.Close()
			}
		})
	}
	begun.Wait()
	return func() { cancel(); all.Wait() }
}

// Whoever floods the port with handshakes keeps the API server waiting for no more than twice the time,
// whether its connection is open or new. A busy machine may spoil a try; without a bound, a request
// takes a hundred times as long in each.
func TestFlood(t *testing.T) {
	const victim = "127.0.0.9"
	for name, tc := range map[string]struct {
		from []string
		// most is how many times as long a new connection may take.
		most time.Duration
	}{
		"one address":    {[]string{"127.0.0.2"}, 2},
		"many addresses": {[]string{"127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5"}, 2},
		// Each step waits for the one that is computed, and sometimes for the oldest.
		"the API server's own address": {[]string{victim}, 6},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t)
			const tries = 5
			for try := 1; ; try++ {
				open, fresh := s.took(t, victim)
				end := s.flood(t, tc.from)
				openBeside, freshBeside := s.took(t, victim)
				end()
				t.Logf("open connection %s, in the flood %s; new connection %s, in the flood %s", open, openBeside, fresh, freshBeside)
				if openBeside <= 2*open && freshBeside <= tc.most*fresh {
					return
				}
				if try == tries {
					t.Fatalf("%d strangers keep the API server waiting", strangers)
				}
			}
		})
	}
}

// Clients that say hello and no more keep no turn.
func TestSilentClients(t *testing.T) {
	s := serve(t)
	hello := s.hello(t)
	for range 8 {
		c, err := dialerFrom("127.0.0.9").DialContext(t.Context(), "tcp", s.address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close() //nolint:errcheck // a test
		if _, err := c.Write(hello); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if took := s.answer(t, s.client(t, "127.0.0.9")); took == longest {
		t.Error("a client beside them gets no answer")
	}
}
