// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/controllers/handshake"
)

// How often the configuration is looked at: before it has the path, and afterwards; and how long that
// may take.
const (
	firstLook   = time.Second
	laterLook   = 10 * time.Second
	lookTimeout = 10 * time.Second
)

// onlyKnown lets those pass whose path ends with a token: the API server shows no certificate to a webhook
// unless it is configured to, but it keeps the path that it is given, which few may read.
func onlyKnown(tokens func() []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		shown := strings.TrimPrefix(req.URL.Path, Path+"/")
		for _, token := range tokens() {
			if subtle.ConstantTimeCompare([]byte(shown), []byte(token)) == 1 {
				next.ServeHTTP(w, req)
				return
			}
		}
		w.Header().Set("Connection", "close") // to ask again costs him a handshake
		http.NotFound(w, req)
	})
}

// recognised gives later handshakes from the address of a caller that is answered turns of their own.
func recognised(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		handshake.Recognised(req.Context())
		next.ServeHTTP(w, req)
	})
}

// unknownAtOnce is how many questions are read at the same time of callers that are not recognised:
// each may take megabytes.
const unknownAtOnce = 8

// atMost answers so many requests at the same time, and refuses more before it reads them. The webhook fails
// open.
func atMost(n int, next http.Handler) http.Handler {
	places := make(chan struct{}, n)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
			next.ServeHTTP(w, req)
		default:
			http.Error(w, "too many questions at the same time", http.StatusTooManyRequests)
		}
	})
}

// pathKeeper gives the API server the path at which it is recognised. It runs on the leader.
type pathKeeper struct {
	reader client.Reader
	client client.Client
	// name is that of the ValidatingWebhookConfiguration.
	name   string
	tokens func() []string
	log    logr.Logger
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*pathKeeper) NeedLeaderElection() bool { return true }

// Start keeps the path until ctx is done. A problem is logged once.
func (k *pathKeeper) Start(ctx context.Context) error {
	for problem := ""; ; {
		wait, now := laterLook, ""
		if err := k.keep(ctx); err != nil {
			wait, now = firstLook, err.Error()
		}
		if now != "" && now != problem && ctx.Err() == nil {
			k.log.Info("Failed to keep the path by which the API server is recognised; retrying", "reason", now)
		}
		problem = now
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// keep writes the path where another stands.
func (k *pathKeeper) keep(ctx context.Context) error {
	tokens := k.tokens()
	if len(tokens) == 0 {
		return errors.New("there is no certificate yet")
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	config := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := k.reader.Get(ctx, client.ObjectKey{Name: k.name}, config); err != nil {
		return fmt.Errorf("read the ValidatingWebhookConfiguration: %w", err)
	}
	want, changed := Path+"/"+tokens[0], false
	for i := range config.Webhooks {
		if service := config.Webhooks[i].ClientConfig.Service; service != nil && (service.Path == nil || *service.Path != want) {
			service.Path, changed = &want, true
		}
	}
	if !changed {
		return nil
	}
	if err := k.client.Update(ctx, config); err != nil {
		return fmt.Errorf("write the ValidatingWebhookConfiguration: %w", err)
	}
	return nil
}
