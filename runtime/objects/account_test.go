// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// A ServiceAccount that is deleted and made again is another one, and tokens of the first are worth
// nothing: a container that starts gets a token of the second, and with it all other pods of the
// account do, although their tokens have not expired.
func TestAccountThatIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &manager{lifetime: time.Hour, account: "first"}
		tokens := m.tokens()
		starts, runs, other := pod("starts", "sa"), pod("runs", "sa"), pod("other", "other")
		elsewhere := pod("elsewhere", "sa")
		elsewhere.Namespace = "another"
		for i, p := range []*corev1.Pod{starts, runs, other, elsewhere} {
			wantToken(t, tokens, p, ask, fmt.Sprintf("api-%d", i+1))
		}
		m.account = "second"
		time.Sleep(time.Minute)
		if got, err := tokens.StartToken(t.Context(), starts, ask); got != "api-5" || err != nil {
			t.Errorf("the container that starts gets %q, %v", got, err)
		}
		synctest.Wait()
		if !slices.Equal(m.fetched, []types.UID{"runs", "starts"}) {
			t.Errorf("the files of pods %v are looked at", m.fetched)
		}
		wantRenewed(t, tokens, runs, "api-2", "api-6")
		wantRenewed(t, tokens, other, "api-3", "api-3")
		wantRenewed(t, tokens, elsewhere, "api-4", "api-4")
		wantRenewed(t, tokens, starts, "api-5", "api-5")
	})
}

// While the account does not exist there is no token, although the one at hand has not expired: what
// asks says why, and gets one when the account is there again.
func TestAccountThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &manager{lifetime: time.Hour, account: "first"}
		tokens := m.tokens()
		wantToken(t, tokens, pod("1", "sa"), ask, "api-1")
		time.Sleep(time.Minute)
		gone := apierrors.NewNotFound(corev1.Resource("serviceaccounts"), "sa")
		m.err = fmt.Errorf("request a token: %w", gone)
		for range 2 {
			_, err := tokens.StartToken(t.Context(), pod("1", "sa"), ask)
			if want := `failed to fetch token: request a token: serviceaccounts "sa" not found`; err == nil || err.Error() != want {
				t.Errorf("error %v, want %s", err, want)
			}
		}
		m.err = nil
		wantToken(t, tokens, pod("1", "sa"), ask, "api-2")
	})
}

// A start waits for a younger token, and not for long: with a manager that does not answer, or has
// not answered just now, it has the one at hand. Starts that follow one another ask once.
func TestTokenOfAStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &manager{lifetime: time.Hour}
		tokens := m.tokens()
		start := func(when, want string, took time.Duration) {
			t.Helper()
			began := time.Now()
			if got, err := tokens.StartToken(t.Context(), pod("1", "sa"), ask); got != want || err != nil || time.Since(began) != took {
				t.Errorf("%s: token %q, %v after %s; want %q after %s", when, got, err, time.Since(began), want, took)
			}
			if m.hold == nil {
				synctest.Wait()
			}
		}
		start("first", "api-1", 0)
		time.Sleep(startAge - time.Second)
		start("young", "api-1", 0)
		time.Sleep(time.Second)
		start("older", "api-2", 0)
		time.Sleep(time.Minute)
		m.err = errors.New("manager away")
		start("manager away", "api-2", 0)
		m.hold = make(chan struct{})
		start("manager away just now", "api-2", 0)
		time.Sleep(time.Minute)
		start("manager that does not answer", "api-2", startPatience)
		tokens.Close()
	})
}

var account = types.NamespacedName{Namespace: "ns", Name: "sa"}

// Tokens are renewed at once, and shown, when the manager says that their account is another one
// by now, although no container starts; those of the account as it is are not.
func TestAccountThatIsMadeAgainWhileContainersRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &manager{lifetime: time.Hour, account: "first"}
		tokens := m.tokens()
		runs, other, unnamed := pod("runs", "sa"), pod("other", "other"), pod("unnamed", "")
		for i, p := range []*corev1.Pod{runs, other, unnamed} {
			wantToken(t, tokens, p, ask, fmt.Sprintf("api-%d", i+1))
		}
		tokens.AccountKnown(account, "first")
		wantRenewed(t, tokens, runs, "api-1", "api-1")
		m.account = "second"
		tokens.AccountKnown(account, "second")
		if !slices.Equal(m.fetched, []types.UID{"runs"}) {
			t.Errorf("the files of pods %v are looked at", m.fetched)
		}
		wantRenewed(t, tokens, runs, "api-1", "api-4")
		tokens.AccountKnown(account, "second")
		wantRenewed(t, tokens, runs, "api-4", "api-4")
		wantRenewed(t, tokens, other, "api-2", "api-2")
		tokens.AccountKnown(types.NamespacedName{Namespace: "ns", Name: "default"}, "second")
		wantRenewed(t, tokens, unnamed, "api-3", "api-5")
	})
}

// A manager that is behind has a token renewed once, not for ever.
func TestAccountThatAManagerKnowsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &manager{lifetime: time.Hour, account: "second"}
		tokens := m.tokens()
		wantToken(t, tokens, pod("1", "sa"), ask, "api-1")
		tokens.AccountKnown(account, "first")
		wantRenewed(t, tokens, pod("1", "sa"), "api-1", "api-2")
		time.Sleep(time.Minute)
		wantRenewed(t, tokens, pod("1", "sa"), "api-2", "api-2")
	})
}

// The token that is under way when the manager says that the account is another one may be of the
// account before, and then it is renewed in turn.
func TestAccountThatIsMadeAgainWhileATokenIsFetched(t *testing.T) {
	for name, tt := range map[string]struct {
		issued, known types.UID
		want          string
	}{
		"of the account before":          {"first", "second", "api-2"},
		"of the account now":             {"second", "second", "api-1"},
		"of an account that is gone now": {"first", "", "api-2"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &manager{lifetime: time.Hour, account: tt.issued, hold: make(chan struct{})}
				tokens := m.tokens()
				_ = tokens.Prefetch(t.Context(), pod("1", "sa"), ask)
				synctest.Wait()
				tokens.AccountKnown(account, tt.known)
				close(m.hold)
				synctest.Wait()
				m.account = "second"
				time.Sleep(retryPause)
				wantRenewed(t, tokens, pod("1", "sa"), "api-1", tt.want)
			})
		})
	}
}

// When the manager says that there is no such account, the tokens of what runs are asked for again:
// what asks says why there is none, long before they are due, and there is one with the next account.
func TestAccountThatIsDeletedWhileContainersRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &manager{lifetime: time.Hour, account: "first"}
		tokens := m.tokens()
		wantToken(t, tokens, pod("1", "sa"), ask, "api-1")
		m.err = apierrors.NewNotFound(corev1.Resource("serviceaccounts"), "sa")
		tokens.AccountKnown(account, "")
		wantToken(t, tokens, pod("1", "sa"), ask, "api-1")
		synctest.Wait()
		want := `failed to fetch token: serviceaccounts "sa" not found`
		if _, err := tokens.Token(t.Context(), pod("1", "sa"), ask); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
		m.err, m.account, m.fetched = nil, "second", nil
		tokens.AccountKnown(account, "second")
		if !slices.Equal(m.fetched, []types.UID{"1"}) {
			t.Errorf("the files of pods %v are looked at", m.fetched)
		}
		wantToken(t, tokens, pod("1", "sa"), ask, "api-2")
	})
}
