// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	apiobjects "github.com/managedworkload/managedworkload/api/objects"
	"github.com/managedworkload/managedworkload/runtime/clock"
)

// manager gives numbered tokens.
type manager struct {
	given    int
	err      error
	lifetime time.Duration
	node     types.UID
	bound    types.UID
	account  types.UID
	fetched  []types.UID
	hold     chan struct{}
}

func (m *manager) tokens() *Tokens {
	began := time.Now()
	return NewTokens(TokensConfig{
		Request: func(ctx context.Context, _ *corev1.Pod, ask apiobjects.Token) (Issued, error) {
			if m.hold != nil {
				select {
				case <-m.hold:
				case <-ctx.Done():
					return Issued{}, ctx.Err()
				}
			}
			if m.err != nil {
				return Issued{}, m.err
			}
			m.given++
			return Issued{Token: fmt.Sprintf("%s-%d", ask.Audience, m.given), Lifetime: m.lifetime, Node: m.bound, Account: m.account}, nil
		},
		NodeUID: func() types.UID { return m.node },
		Fetched: func(uid types.UID) { m.fetched = append(m.fetched, uid) },
		Clock:   clock.New(clock.Config{SinceBoot: func() time.Duration { return time.Since(began) }}),
	})
}

func pod(uid types.UID, account string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "x", UID: uid}, Spec: corev1.PodSpec{ServiceAccountName: account}}
}

var ask = apiobjects.Token{Audience: "api", ExpirationSeconds: 3600}

func wantToken(t *testing.T, tokens *Tokens, p *corev1.Pod, ask apiobjects.Token, want string) {
	t.Helper()
	if got, err := tokens.Token(t.Context(), p, ask); err != nil || got != want {
		t.Errorf("token %q, %v; want %q", got, err, want)
	}
}

// wantRenewed: the token at hand comes at once, and the next one soon.
func wantRenewed(t *testing.T, tokens *Tokens, p *corev1.Pod, old, renewed string) {
	t.Helper()
	wantToken(t, tokens, p, ask, old)
	synctest.Wait()
	wantToken(t, tokens, p, ask, renewed)
	synctest.Wait()
}

func TestATokenIsKeptForFourFifthsOfItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &manager{lifetime: time.Hour}
		tokens := m.tokens()
		wantToken(t, tokens, pod("1", "sa"), ask, "api-1")
		time.Sleep(43 * time.Minute) // 48 minutes but for a jitter of a tenth
		wantToken(t, tokens, pod("1", "sa"), ask, "api-1")
		time.Sleep(5*time.Minute + time.Second)
		wantRenewed(t, tokens, pod("1", "sa"), "api-1", "api-2")
	})
}

func TestALongTokenIsRenewedAfterADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &manager{lifetime: 1000 * time.Hour}
		tokens := m.tokens()
		wantToken(t, tokens, pod("1", "sa"), ask, "api-1")
		time.Sleep(21 * time.Hour)
		wantToken(t, tokens, pod("1", "sa"), ask, "api-1")
		time.Sleep(3*time.Hour + time.Second)
		wantRenewed(t, tokens, pod("1", "sa"), "api-1", "api-2")
	})
}

func TestRenewalsAreSpread(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 100 {
		after := renewAfter(time.Hour)
		if after > 48*time.Minute || after < 43*time.Minute {
			t.Fatalf("renewed after %s", after)
		}
		seen[after] = true
	}
	if len(seen) < 50 {
		t.Errorf("%d different times of 100", len(seen))
	}
}

func TestEachPodAccountAudienceAndTimeHasItsToken(t *testing.T) {
	m := &manager{lifetime: time.Hour}
	tokens := m.tokens()
	wantToken(t, tokens, pod("1", "sa"), ask, "api-1")
	wantToken(t, tokens, pod("2", "sa"), ask, "api-2")
	wantToken(t, tokens, pod("1", "other"), ask, "api-3")
	wantToken(t, tokens, pod("1", "sa"), apiobjects.Token{Audience: "vault", ExpirationSeconds: 3600}, "vault-4")
	wantToken(t, tokens, pod("1", "sa"), apiobjects.Token{Audience: "api", ExpirationSeconds: 600}, "api-5")
	wantToken(t, tokens, pod("1", "sa"), ask, "api-1")
}

func TestANewNodeNeedsNewTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &manager{lifetime: time.Hour}
		tokens := m.tokens()
		wantToken(t, tokens, pod("1", "sa"), ask, "api-1")
		m.node = "first" // it was not known before
		wantRenewed(t, tokens, pod("1", "sa"), "api-1", "api-1")
		wantToken(t, tokens, pod("2", "sa"), ask, "api-2")
		m.node = "second"
		wantRenewed(t, tokens, pod("2", "sa"), "api-2", "api-3")
		m.node = "" // not known for a while
		wantRenewed(t, tokens, pod("2", "sa"), "api-3", "api-3")
	})
}

// A token says itself which Node it is bound to: that counts, whatever was known when it was
// asked for. Where the manager knows another Node it is asked again after a pause.
func TestATokenSaysWhatItIsBoundTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &manager{lifetime: time.Hour, bound: "first"}
		tokens := m.tokens()
		wantToken(t, tokens, pod("1", "sa"), ask, "api-1")
		m.node = "second"
		wantRenewed(t, tokens, pod("1", "sa"), "api-1", "api-2")
		wantRenewed(t, tokens, pod("1", "sa"), "api-2", "api-2")
		m.bound = "second"
		time.Sleep(retryPause)
		wantRenewed(t, tokens, pod("1", "sa"), "api-2", "api-3")
		time.Sleep(retryPause)
		wantRenewed(t, tokens, pod("1", "sa"), "api-3", "api-3")
	})
}

// A manager that does not answer delays only who has no token.
func TestARenewalIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &manager{lifetime: time.Hour}
		tokens := m.tokens()
		wantToken(t, tokens, pod("1", "sa"), ask, "api-1")
		m.hold = make(chan struct{})
		time.Sleep(50 * time.Minute)
		began := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		for range 3 {
			if got, err := tokens.Token(ctx, pod("1", "sa"), ask); got != "api-1" || err != nil || time.Since(began) > 0 {
				t.Errorf("token %q, %v after %s", got, err, time.Since(began))
			}
			synctest.Wait()
		}
		cancel() // who has asked is done
		close(m.hold)
		synctest.Wait()
		wantToken(t, tokens, pod("1", "sa"), ask, "api-2")
		if m.given != 2 || len(m.fetched) != 1 {
			t.Errorf("%d tokens given, reported %d times", m.given, len(m.fetched))
		}
		m.hold = make(chan struct{})
		time.Sleep(50 * time.Minute)
		wantToken(t, tokens, pod("1", "sa"), ask, "api-2")
		tokens.Close() // although the manager does not answer
		wantToken(t, tokens, pod("1", "sa"), ask, "api-2")
	})
}

func TestAFailedRenewalKeepsTheValidToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &manager{lifetime: time.Hour}
		tokens := m.tokens()
		wantToken(t, tokens, pod("1", "sa"), ask, "api-1")
		m.err = errors.New("manager away")
		time.Sleep(50 * time.Minute)
		wantRenewed(t, tokens, pod("1", "sa"), "api-1", "api-1")

		// It is not asked again at once, and then it works.
		m.err = nil
		time.Sleep(retryPause - time.Second)
		wantRenewed(t, tokens, pod("1", "sa"), "api-1", "api-1")
		time.Sleep(2 * time.Second)
		wantRenewed(t, tokens, pod("1", "sa"), "api-1", "api-2")

		m.err = errors.New("manager away")
		time.Sleep(time.Hour)
		_, err := tokens.Token(t.Context(), pod("1", "sa"), ask)
		if want := `token for service account "sa" expired and refresh failed: manager away`; err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	})
}

func TestWithoutAnyTokenTheErrorIsTheKubelets(t *testing.T) {
	m := &manager{err: errors.New("no")}
	if _, err := m.tokens().Token(t.Context(), pod("1", "sa"), ask); err == nil || err.Error() != "failed to fetch token: no" {
		t.Errorf("error %v", err)
	}
}

func TestTokensOfAPodThatIsGoneAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &manager{lifetime: time.Hour}
		tokens := m.tokens()
		wantToken(t, tokens, pod("1", "sa"), ask, "api-1")
		tokens.ForgetPod("1")
		wantToken(t, tokens, pod("1", "sa"), ask, "api-2")

		time.Sleep(2 * time.Hour) // it does not ask any more
		wantToken(t, tokens, pod("2", "sa"), ask, "api-3")
		if _, kept := tokens.pods["1"]; kept {
			t.Error("expired tokens are kept")
		}
	})
}

func TestOneRequestServesAllWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &manager{lifetime: time.Hour, hold: make(chan struct{})}
		tokens := m.tokens()
		for range 5 {
			go wantToken(t, tokens, pod("1", "sa"), ask, "api-1")
		}
		synctest.Wait()
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			_, err := tokens.Token(ctx, pod("1", "sa"), ask)
			if err == nil || !strings.Contains(err.Error(), "stopped") {
				t.Errorf("of one who does not wait any more: %v", err)
			}
		}()
		synctest.Wait()
		cancel(errors.New("stopped"))
		synctest.Wait()
		close(m.hold)
		synctest.Wait()
		if m.given != 1 {
			t.Errorf("%d requests", m.given)
		}
	})
}

func TestPrefetchDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &manager{lifetime: time.Hour, hold: make(chan struct{}), err: errors.New("manager away")}
		tokens := m.tokens()
		prefetch := func(want string) {
			t.Helper()
			if err := tokens.Prefetch(t.Context(), pod("1", "sa"), ask); fmt.Sprint(err) != want {
				t.Errorf("error %v, want %s", err, want)
			}
			synctest.Wait()
		}
		prefetch("token has not been received from the manager yet")
		prefetch("token has not been received from the manager yet")
		close(m.hold)
		synctest.Wait()
		if len(m.fetched) != 1 {
			t.Errorf("reported %d times that it has not come", len(m.fetched))
		}
		m.err = nil
		prefetch("failed to fetch token: manager away") // it is not asked again at once
		time.Sleep(retryPause)
		prefetch("failed to fetch token: manager away")
		prefetch("<nil>")
		if m.given != 1 || len(m.fetched) != 2 {
			t.Errorf("%d tokens, reported %d times", m.given, len(m.fetched))
		}
		tokens.Close()
	})
}
