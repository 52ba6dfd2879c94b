// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	apiobjects "github.com/managedworkload/managedworkload/api/objects"
	"github.com/managedworkload/managedworkload/runtime/clock"
	"github.com/managedworkload/managedworkload/runtime/panics"
)

const (
	// longestUse is after how long a token is renewed whatever its lifetime.
	// (kubelet token/token_manager.go)
	longestUse = 24 * time.Hour
	// retryPause is the time between two tries to renew a token that is still valid, and
	// between two tries of Prefetch.
	retryPause = 10 * time.Second
)

// Issued is a token that the manager has given.
type Issued struct {
	Token    string
	Lifetime time.Duration
}

// TokensConfig is what Tokens need.
type TokensConfig struct {
	// Request asks the manager for a token of the pod's service account.
	Request func(ctx context.Context, pod *corev1.Pod, ask apiobjects.Token) (Issued, error)
	// NodeUID is that of the Node, to which tokens are bound; "" where it is not known.
	NodeUID func() types.UID
	// Fetched is called when a token that Prefetch asked for has come, or has not; nil is
	// allowed.
	Fetched func(pod types.UID)
	// Clock measures lifetimes by the time since boot: a wall clock may be set.
	Clock *clock.Clock
	// Log gets renewals that fail while the token before is valid.
	Log logr.Logger
}

// Tokens are the service account tokens of the node's pods. They are asked for when
// they are needed, and kept in memory. Tokens is safe for concurrent use.
type Tokens struct {
	config  TokensConfig
	fetches sync.WaitGroup

	mu   sync.Mutex
	pods map[types.UID]map[tokenKey]*token
}

// tokenKey says which of a pod's tokens it is.
type tokenKey struct {
	apiobjects.Token
	account string
}

// token is guarded by the lock of Tokens, but for busy. Its times are those since boot.
type token struct {
	// busy is held by whoever asks the manager.
	busy chan struct{}

	value            string
	node             types.UID
	renewAt, expires time.Duration
	// failed is why the last try failed, nil if it did not, and retryAt when the next is due.
	failed  error
	retryAt time.Duration
}

// NewTokens returns Tokens that have none yet.
func NewTokens(config TokensConfig) *Tokens {
	if config.NodeUID == nil {
		config.NodeUID = func() types.UID { return "" }
	}
	if config.Fetched == nil {
		config.Fetched = func(types.UID) {}
	}
	return &Tokens{config: config, pods: map[types.UID]map[tokenKey]*token{}}
}

// Token returns a token of the pod's service account: the one at hand, or another one
// from when four fifths of its time are over, it is a day old, or the Node has become
// another one. Where the renewal fails, one that is still valid remains. (kubelet
// token/token_manager.go:GetServiceAccountToken)
func (t *Tokens) Token(ctx context.Context, pod *corev1.Pod, ask apiobjects.Token) (string, error) {
	held := t.entry(pod, ask)
	if value, ok := t.usable(held); ok {
		return value, nil
	}
	select {
	case held.busy <- struct{}{}:
		defer func() { <-held.busy }()
	case <-ctx.Done():
		return "", fmt.Errorf("failed to fetch token: %w", context.Cause(ctx))
	}
	if value, ok := t.usable(held); ok { // of whoever was busy before
		return value, nil
	}
	return t.renew(ctx, pod, ask, held)
}

// renew asks the manager; held.busy is held.
func (t *Tokens) renew(ctx context.Context, pod *corev1.Pod, ask apiobjects.Token, held *token) (string, error) {
	node := t.config.NodeUID()
	asked := t.config.Clock.SinceBoot()
	issued, err := t.config.Request(ctx, pod, ask)
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.config.Clock.SinceBoot()
	if err == nil {
		held.value, held.node, held.failed = issued.Token, node, nil
		held.expires, held.renewAt = asked+issued.Lifetime, asked+renewAfter(issued.Lifetime)
		return held.value, nil
	}
	held.failed, held.retryAt = err, now+retryPause
	switch {
	case held.value == "":
		return "", fmt.Errorf("failed to fetch token: %w", err)
	case now >= held.expires:
		return "", fmt.Errorf("token for service account %q expired and refresh failed: %w", pod.Spec.ServiceAccountName, err)
	}
	t.config.Log.Error(err, "Couldn't update token", "namespace", pod.Namespace, "pod", pod.Name, "audience", ask.Audience)
	return held.value, nil
}

// renewAfter is when a token is renewed. The jitter, up to a tenth of the time and always
// to the early side, spreads the renewals of many nodes.
func renewAfter(lifetime time.Duration) time.Duration {
	after := min(lifetime/5*4, longestUse)
	return after - time.Duration(rand.Float64()*float64(after)/10) //nolint:gosec // G404: it spreads load
}

// usable is the token at hand, if it need not be renewed now.
func (t *Tokens) usable(held *token) (string, bool) {
	node, now := t.config.NodeUID(), t.config.Clock.SinceBoot()
	t.mu.Lock()
	defer t.mu.Unlock()
	if held.value == "" || now >= held.expires {
		return "", false
	}
	moved := node != "" && held.node != "" && node != held.node
	due := moved || now >= held.renewAt
	return held.value, !due || held.failed != nil && now < held.retryAt
}

// entry finds or makes what is known of a token, and drops what has expired of pods that
// do not ask any more.
func (t *Tokens) entry(pod *corev1.Pod, ask apiobjects.Token) *token {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := tokenKey{ask, pod.Spec.ServiceAccountName}
	held := t.pods[pod.UID][key]
	if held != nil {
		return held
	}
	t.dropExpired()
	if t.pods[pod.UID] == nil {
		t.pods[pod.UID] = map[tokenKey]*token{}
	}
	held = &token{busy: make(chan struct{}, 1)}
	t.pods[pod.UID][key] = held
	return held
}

// dropExpired drops tokens that are of no use any more; t.mu is held.
func (t *Tokens) dropExpired() {
	now := t.config.Clock.SinceBoot()
	for uid, tokens := range t.pods {
		maps.DeleteFunc(tokens, func(_ tokenKey, held *token) bool {
			return len(held.busy) == 0 && held.value != "" && now >= held.expires
		})
		if len(tokens) == 0 {
			delete(t.pods, uid)
		}
	}
}

// ForgetPod drops the tokens of a pod that is gone.
func (t *Tokens) ForgetPod(pod types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.pods, pod)
}

// Prefetch says why no token is at hand, nil if one is, and has it fetched: the caller
// does not wait. Close waits for it.
func (t *Tokens) Prefetch(ctx context.Context, pod *corev1.Pod, ask apiobjects.Token) error {
	held := t.entry(pod, ask)
	t.mu.Lock()
	now := t.config.Clock.SinceBoot()
	valid, failed := held.value != "" && now < held.expires, held.failed
	due := !valid && len(held.busy) == 0 && (failed == nil || now >= held.retryAt)
	t.mu.Unlock()
	if due {
		t.fetches.Go(func() {
			_ = panics.Contain(t.config.Log, "fetching a token", func() error {
				_, err := t.Token(ctx, pod, ask)
				return err // noted already, for the next who asks
			})
			t.config.Fetched(pod.UID)
		})
	}
	switch {
	case valid:
		return nil
	case failed != nil:
		return fmt.Errorf("failed to fetch token: %w", failed)
	}
	return fmt.Errorf("token %w", ErrNotReceived)
}

// Close returns when nothing is fetched any more: the contexts of Prefetch have ended.
func (t *Tokens) Close() { t.fetches.Wait() }
