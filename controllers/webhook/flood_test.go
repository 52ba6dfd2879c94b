// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/admission"
)

// one is how long a question takes alone.
const one = 100 * time.Millisecond

// slowAPI answers as many questions at the same time as it has seats, in the order of their arrival.
type slowAPI struct{ seats chan struct{} }

func (a *slowAPI) Review(ctx context.Context, _ *v1alpha1.ManagedWorkload) (admission.Review, error) {
	select {
	case a.seats <- struct{}{}:
	case <-ctx.Done():
		return admission.Review{}, ctx.Err()
	}
	defer func() { <-a.seats }()
	time.Sleep(one)
	return admission.Review{Warnings: []string{"asked"}}, nil
}

func (*slowAPI) ReviewFields(*v1alpha1.ManagedWorkload) admission.Review { return admission.Review{} }

// create reviews a new object in the name of a user, and returns how long that took.
func create(ctx context.Context, v *validator, user string) (took time.Duration, warnings string) {
	begun := time.Now()
	ctx = ctrladmission.NewContextWithRequest(ctx, ctrladmission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Namespace: "ns", UserInfo: authenticationv1.UserInfo{Username: user},
	}})
	said, _ := v.ValidateCreate(ctx, &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Name: "web"}})
	return time.Since(begun), strings.Join(said, "; ")
}

// A tenant who applies a hundred templates at once keeps nobody else waiting for more than twice the time,
// in his own name or in those of a hundred ServiceAccounts.
func TestFloodOfATenant(t *testing.T) {
	for name, user := range map[string]func(int) string{
		"one user":             func(int) string { return "tenant" },
		"many ServiceAccounts": func(i int) string { return fmt.Sprintf("system:serviceaccount:tenant:a%d", i) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := &validator{judge: &slowAPI{seats: make(chan struct{}, 8)}, turns: newTurns()}
				alone, _ := create(t.Context(), v, "victim")
				var flood sync.WaitGroup
				for i := range 100 {
					flood.Go(func() {
						if took, said := create(t.Context(), v, user(i)); took > askTimeout || said == "" {
							t.Errorf("an answer %q after %s", said, took)
						}
					})
				}
				synctest.Wait()
				took, said := create(t.Context(), v, "victim")
				if took > 2*alone || said != "asked" {
					t.Errorf("the victim waits for %s, alone %s, warnings %q", took, alone, said)
				}
				flood.Wait()
				if len(v.turns.users) != 0 {
					t.Errorf("%d users are remembered", len(v.turns.users))
				}
			})
		})
	}
}

// Who waits too long, or too many at once, gets an answer of what the template shows, and is told.
func TestTurnsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns()
		for range atOnce {
			if _, err := turns.enter(t.Context(), "tenant"); err != nil {
				t.Fatal(err)
			}
		}
		v := &validator{judge: &slowAPI{seats: make(chan struct{}, 8)}, turns: turns}
		took, said := create(t.Context(), v, "tenant")
		if took != askTimeout || !strings.HasPrefix(said, "admission could not be asked") {
			t.Errorf("warnings %q after %s", said, took)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var waits sync.WaitGroup
		for range waiting {
			waits.Go(func() { _, _ = turns.enter(ctx, "tenant") })
		}
		synctest.Wait()
		if took, said := create(t.Context(), v, "tenant"); took != 0 || !strings.HasPrefix(said, "admission could not be asked") {
			t.Errorf("one too many: warnings %q after %s", said, took)
		}
		cancel()
		waits.Wait()
	})
}

// Whoever reaches the webhook without being the API server learns what his own template shows, and
// nothing is asked for him.
func TestUnknownCallerLearnsNothing(t *testing.T) {
	known := &judge{review: admission.Review{Warnings: []string{"of the fields"}}}
	v := &validator{judge: known}
	_, said := create(t.Context(), v, "system:masters")
	if known.asked != 0 || said != "of the fields; "+errUnrecognised.Error()+"; the condition Accepted will say whether it passes" {
		t.Errorf("asked %d times, warnings %q", known.asked, said)
	}
}
