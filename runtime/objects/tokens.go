// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"cmp"
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
	// startAge is how old a token may be that a container starts with, and startPatience how long
	// a start waits for a younger one.
	startAge      = 10 * time.Second
	startPatience = 2 * time.Second
)

// Issued is a token that the manager has given.
type Issued struct {
	Token    string
	Lifetime time.Duration
	// Node is the UID of the Node that it is bound to, "" if that is not known.
	Node types.UID
	// Account is the UID of its service account, "" if that is not known.
	Account types.UID
}

// TokensConfig is what Tokens need.
type TokensConfig struct {
	// Request asks the manager for a token of the pod's service account.
	Request func(ctx context.Context, pod *corev1.Pod, ask apiobjects.Token) (Issued, error)
	// NodeUID is that of the Node, to which tokens are bound; "" where it is not known.
	NodeUID func() types.UID
	// Fetched is called when a token that was asked for in the background has come, or has
	// not; nil is allowed.
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
	// ctx is that of renewals in the background; stop ends it.
	ctx  context.Context //nolint:containedctx // who asks does not wait for them
	stop context.CancelFunc

	mu     sync.Mutex
	closed bool
	pods   map[types.UID]map[tokenKey]*token
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

	value string
	// of is the account whose it is, and account the UID of that.
	of      types.NamespacedName
	account types.UID
	// notified is the UID that the manager said the account has, since the token was asked for.
	notified *types.UID
	// asked is when it was asked for.
	asked time.Duration
	// node is what it is bound to, and known what was known of the Node when it was asked for.
	node, known      types.UID
	renewAt, expires time.Duration
	// failed is why the last try failed, nil if it did not, and retryAt is when to ask again
	// after it has failed or has brought a token for another Node.
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
	t := &Tokens{config: config, pods: map[types.UID]map[tokenKey]*token{}}
	t.ctx, t.stop = context.WithCancel(context.Background()) //nolint:forbidigo // renewals outlive who asks; Close ends them
	return t
}

// Token returns a token of the pod's service account. One at hand is returned at once, and
// renewed in the background from when four fifths of its time are over, it is a day old, or
// the Node or the account has become another one; where that fails it remains as long as it is valid. (kubelet
// token/token_manager.go:GetServiceAccountToken)
func (t *Tokens) Token(ctx context.Context, pod *corev1.Pod, ask apiobjects.Token) (string, error) {
	held := t.entry(pod, ask)
	if value, due := t.atHand(held); value != "" {
		if due {
			t.renewLater(pod, ask, held)
		}
		return value, nil
	}
	select {
	case held.busy <- struct{}{}:
		defer func() { <-held.busy }()
	case <-ctx.Done():
		return "", fmt.Errorf("failed to fetch token: %w", context.Cause(ctx))
	}
	if value, _ := t.atHand(held); value != "" { // of whoever was busy before
		return value, nil
	}
	return t.renew(ctx, pod, ask, held)
}

// StartToken returns a token for a container that starts. One at hand is renewed first, unless it is
// young: its account may have been made again since, and then it is worth nothing. A manager that
// does not answer soon leaves the one at hand.
func (t *Tokens) StartToken(ctx context.Context, pod *corev1.Pod, ask apiobjects.Token) (string, error) {
	held := t.entry(pod, ask)
	if t.outgrown(held) {
		t.renewLater(pod, ask, held)
		patience := time.NewTimer(startPatience)
		defer patience.Stop()
		select {
		case held.busy <- struct{}{}:
			<-held.busy
		case <-patience.C:
		case <-ctx.Done():
		}
	}
	return t.Token(ctx, pod, ask)
}

// outgrown reports whether the token at hand is to be renewed before a start, and has it be due.
func (t *Tokens) outgrown(held *token) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.config.Clock.SinceBoot()
	if held.value == "" || now-held.asked < startAge || held.failed != nil && now < held.retryAt {
		return false
	}
	held.renewAt = min(held.renewAt, now)
	return true
}

// renewLater has a token renewed, unless that is under way. Close waits for it.
func (t *Tokens) renewLater(pod *corev1.Pod, ask apiobjects.Token, held *token) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	select {
	case held.busy <- struct{}{}:
	default:
		return
	}
	t.fetches.Go(func() {
		defer t.config.Fetched(pod.UID)
		defer func() { <-held.busy }()
		_ = panics.Contain(t.config.Log, "renewing a token", func() error {
			if _, due := t.atHand(held); !due {
				return nil
			}
			_, err := t.renew(t.ctx, pod, ask, held)
			return err // noted already, for the next who asks
		})
	})
}

// renew asks the manager; held.busy is held.
func (t *Tokens) renew(ctx context.Context, pod *corev1.Pod, ask apiobjects.Token, held *token) (string, error) {
	node := t.config.NodeUID()
	asked := t.config.Clock.SinceBoot()
	t.mu.Lock()
	held.notified = nil
	t.mu.Unlock()
	issued, err := t.config.Request(ctx, pod, ask)
	if err != nil {
		return t.keep(pod, ask, held, err)
	}
	t.mu.Lock()
	held.value, held.node, held.known, held.failed = issued.Token, cmp.Or(issued.Node, node), node, nil
	held.account, held.asked = issued.Account, asked
	held.retryAt = t.config.Clock.SinceBoot() + retryPause
	held.expires, held.renewAt = asked+issued.Lifetime, asked+renewAfter(issued.Lifetime)
	if said := held.notified; said != nil && (*said == "" || isAnother(held.account, *said)) {
		held.renewAt = asked
	}
	others := t.makeDue(func(other *token) bool { return other.of == held.of && isAnother(other.account, held.account) })
	t.mu.Unlock()
	t.fetched(others)
	return issued.Token, nil
}

// keep notes that a token could not be had, and returns the valid one at hand. One whose account
// does not exist is not valid: another one of the name has other tokens.
func (t *Tokens) keep(pod *corev1.Pod, ask apiobjects.Token, held *token, err error) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.config.Clock.SinceBoot()
	held.failed, held.retryAt = err, now+retryPause
	if apiobjects.IsAccountGone(err) {
		held.value = ""
	}
	switch {
	case held.value == "":
		return "", fmt.Errorf("failed to fetch token: %w", err)
	case now >= held.expires:
		return "", fmt.Errorf("token for service account %q expired and refresh failed: %w", pod.Spec.ServiceAccountName, err)
	}
	t.config.Log.Error(err, "Couldn't update token", "namespace", pod.Namespace, "pod", pod.Name, "audience", ask.Audience)
	return held.value, nil
}

// AccountKnown says which UID a service account has by now, "" if there is none of that name. Tokens
// of another UID are renewed, and without an account all of its name: they are worth nothing any more.
func (t *Tokens) AccountKnown(account types.NamespacedName, uid types.UID) {
	t.mu.Lock()
	pods := t.makeDue(func(held *token) bool {
		if held.of != account {
			return false
		}
		held.notified = &uid
		return uid == "" || isAnother(held.account, uid)
	})
	t.mu.Unlock()
	t.fetched(pods)
}

// isAnother reports whether two UIDs are known, and are those of two accounts.
func isAnother(a, b types.UID) bool { return a != "" && b != "" && a != b }

// makeDue has the tokens that match renewed when they are asked for next, and returns their pods.
// t.mu is held.
func (t *Tokens) makeDue(match func(*token) bool) []types.UID {
	var pods []types.UID
	for uid, tokens := range t.pods {
		found := false
		for _, held := range tokens {
			if match(held) {
				held.renewAt, held.retryAt, found = 0, 0, true
			}
		}
		if found {
			pods = append(pods, uid)
		}
	}
	return pods
}

// fetched says of which pods tokens are to be looked at again.
func (t *Tokens) fetched(pods []types.UID) {
	for _, uid := range pods {
		t.config.Fetched(uid)
	}
}

// renewAfter is when a token is renewed. The jitter, up to a tenth of the time and always
// to the early side, spreads the renewals of many nodes.
func renewAfter(lifetime time.Duration) time.Duration {
	after := min(lifetime/5*4, longestUse)
	return after - time.Duration(rand.Float64()*float64(after)/10) //nolint:gosec // G404: it spreads load
}

// atHand is the valid token at hand, "" if there is none, and whether it is to be renewed now.
func (t *Tokens) atHand(held *token) (value string, due bool) {
	node, now := t.config.NodeUID(), t.config.Clock.SinceBoot()
	t.mu.Lock()
	defer t.mu.Unlock()
	if held.value == "" || now >= held.expires {
		return "", false
	}
	moved := node != "" && held.node != "" && node != held.node
	waits := now < held.retryAt && (held.failed != nil || held.known == node)
	return held.value, !waits && (moved || now >= held.renewAt)
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
	held = &token{busy: make(chan struct{}, 1), of: types.NamespacedName{Namespace: pod.Namespace, Name: apiobjects.AccountRef(pod.Spec.ServiceAccountName).Name}}
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

// Close ends what is renewed in the background, and returns when nothing is fetched any more:
// the contexts of Prefetch have ended.
func (t *Tokens) Close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.stop()
	t.fetches.Wait()
}
