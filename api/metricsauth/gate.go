// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package metricsauth

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/flowcontrol"
)

const (
	// keptFor is how long an answer is used again.
	keptFor = time.Minute
	// trustedFor is how long a question that was answered well may be asked again apart from others.
	trustedFor = time.Hour
	// mostKept bounds the answers that are kept.
	mostKept = 256
	// reviewTimeout bounds the questions about one request.
	reviewTimeout = 10 * time.Second
	// maxToken is longer than any token of a service account.
	maxToken = 16 << 10
)

type tokenReviews interface {
	Create(context.Context, *authenticationv1.TokenReview, metav1.CreateOptions) (*authenticationv1.TokenReview, error)
}

type accessReviews interface {
	Create(context.Context, *authorizationv1.SubjectAccessReview, metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error)
}

// question is what is asked about a request, and answer what came: a status code. A token is not
// kept, only its hash.
type question struct {
	token      [sha256.Size]byte
	verb, path string
}

type answer struct {
	code  int
	until time.Time
}

// gate lets pass whom the API server lets get a path.
type gate struct {
	tokens tokenReviews
	access accessReviews
	// strangers bound how often the API server is asked about tokens that may be made up, and
	// trusted how often about those that were good: the first take nothing from the second.
	strangers *strangers
	trusted   flowcontrol.PassiveRateLimiter

	mu   sync.Mutex
	kept map[question]answer
}

func newGate(tokens tokenReviews, access accessReviews) *gate {
	return &gate{
		tokens: tokens, access: access, kept: map[question]answer{},
		strangers: newStrangers(), trusted: flowcontrol.NewTokenBucketPassiveRateLimiter(reviewQPS, reviewBurst),
	}
}

// guard answers requests with next that may pass.
func (g *gate) guard(log logr.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		code, err := g.judge(req)
		if err != nil {
			log.Error(err, "Failed to find out who asks for metrics")
		}
		if code != http.StatusOK {
			http.Error(w, http.StatusText(code), code)
			return
		}
		next.ServeHTTP(w, req)
	})
}

// judge is the status code that a request deserves.
func (g *gate) judge(req *http.Request) (int, error) {
	kind, token, _ := strings.Cut(strings.TrimSpace(req.Header.Get("Authorization")), " ")
	if !strings.EqualFold(kind, "bearer") || token == "" || len(token) > maxToken {
		return http.StatusUnauthorized, nil
	}
	q := question{sha256.Sum256([]byte(token)), strings.ToLower(req.Method), req.URL.Path}
	code, known, trusted := g.known(q)
	switch {
	case known:
		return code, nil
	case trusted && !g.trusted.TryAccept(), !trusted && !g.strangers.mayAsk(req.RemoteAddr):
		return http.StatusTooManyRequests, nil
	}
	ctx, cancel := context.WithTimeout(req.Context(), reviewTimeout)
	defer cancel()
	code, err := g.ask(ctx, token, q)
	if err != nil {
		return http.StatusInternalServerError, err
	}
	g.keep(q, code)
	return code, nil
}

// ask asks the API server whose the token is, and whether he may.
func (g *gate) ask(ctx context.Context, token string, q question) (int, error) {
	who, err := g.tokens.Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("ask whose a token is: %w", err)
	}
	if !who.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	user := who.Status.User
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	may, err := g.access.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: q.path, Verb: q.verb},
	}}, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("ask whether %s may %s %s: %w", user.Username, q.verb, q.path, err)
	}
	if !may.Status.Allowed || may.Status.Denied {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}

// known is the answer if it still holds, and whether it was a good one.
func (g *gate) known(q question) (code int, known, trusted bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	a, found := g.kept[q]
	return a.code, found && time.Now().Before(a.until), found && a.trusted(time.Now())
}

// trusted says that an answer was good, not long ago.
func (a answer) trusted(now time.Time) bool {
	return a.code == http.StatusOK && now.Before(a.until.Add(trustedFor))
}

// keep keeps an answer, where there is room: otherwise it is asked for again.
func (g *gate) keep(q question, code int) {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.kept, q)
	if len(g.kept) >= mostKept {
		maps.DeleteFunc(g.kept, func(_ question, a answer) bool { return !a.trusted(now) })
	}
	if len(g.kept) < mostKept {
		g.kept[q] = answer{code, now.Add(keptFor)}
	}
}
