// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
)

// handler answers probes, hooks and requests to change the health. Whatever is
// not a health check is logged, so that a test sees which hooks came in.
func (h *health) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", answer(h.live))
	mux.HandleFunc("/readyz", answer(h.ready))
	mux.HandleFunc("/startupz", answer(h.started))
	mux.Handle("/fail", h.logged(func(http.ResponseWriter, *http.Request) { h.setFailing(true) }))
	mux.Handle("/recover", h.logged(func(http.ResponseWriter, *http.Request) { h.setFailing(false) }))
	mux.Handle("/unready", h.logged(func(http.ResponseWriter, *http.Request) { h.setUnready(true) }))
	mux.Handle("/ready", h.logged(func(http.ResponseWriter, *http.Request) { h.setUnready(false) }))
	mux.Handle("/exit", h.logged(h.exitNow))
	mux.Handle("/status", h.logged(status))
	mux.Handle("/redirect", h.logged(redirect))
	mux.Handle("/", h.logged(func(http.ResponseWriter, *http.Request) {}))
	return mux
}

func answer(check func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if err := check(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok\n")
	}
}

// logged logs the request before and after it waits for as long as its
// parameter "sleep" says.
func (h *health) logged(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.log.printf("http %s %s host=%s agent=%q mark=%q", r.Method, r.URL.RequestURI(), r.Host, r.UserAgent(), r.Header.Get("X-Mark"))
		delay, err := time.ParseDuration(r.FormValue("sleep"))
		if err == nil {
			select {
			case <-time.After(delay):
				h.log.printf("http %s %s answered", r.Method, r.URL.RequestURI())
			case <-r.Context().Done():
				h.log.printf("http %s %s given up by the client", r.Method, r.URL.RequestURI())
				return
			}
		}
		next(w, r)
	})
}

// exitNow ends the program with the parameter "code".
func (h *health) exitNow(w http.ResponseWriter, r *http.Request) {
	code, err := strconv.Atoi(r.FormValue("code"))
	if err != nil {
		http.Error(w, "want ?code=NUMBER", http.StatusBadRequest)
		return
	}
	select {
	case h.exit <- code:
	default: // already exiting
	}
}

func status(w http.ResponseWriter, r *http.Request) {
	code, err := strconv.Atoi(r.FormValue("code"))
	if err != nil || code < 200 || code > 599 {
		http.Error(w, "want ?code=200..599", http.StatusBadRequest)
		return
	}
	w.WriteHeader(code)
}

func redirect(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, r.FormValue("to"), http.StatusFound)
}

func (h *health) serveHTTP(ctx context.Context, address string, group *errgroup.Group) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	h.serveOn(ctx, listener, group)
	return nil
}

func (h *health) serveHTTPS(ctx context.Context, address string, group *errgroup.Group) error {
	cert, err := selfSigned()
	if err != nil {
		return err
	}
	listener, err := tls.Listen("tcp", address, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12})
	if err != nil {
		return err
	}
	h.serveOn(ctx, listener, group)
	return nil
}

func (h *health) serveOn(ctx context.Context, listener net.Listener, group *errgroup.Group) {
	server := &http.Server{Handler: h.handler(), ReadHeaderTimeout: 10 * time.Second}
	group.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve HTTP: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		return server.Close()
	})
}

func selfSigned() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(365 * 24 * time.Hour),
		DNSNames:     []string{"testprogram"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
