// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"fmt"
	"strings"
	"sync"

	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

const (
	// atOnce is how many templates of one user are asked about at the same time: the questions of a
	// user who applies many keep those of others waiting for as many at most.
	atOnce = 4
	// waiting is how many more of his may wait for that.
	waiting = 100
)

// turns bound the questions about templates of each user.
type turns struct {
	mu    sync.Mutex
	users map[string]*queue
}

// queue has a place for each question of a user that is under way.
type queue struct {
	places chan struct{}
	// members are the questions that are under way or wait.
	members int
}

func newTurns() *turns { return &turns{users: map[string]*queue{}} }

// enter waits for the user's turn, until ctx ends. leave ends it.
func (t *turns) enter(ctx context.Context, user string) (leave func(), err error) {
	q, err := t.join(user)
	if err != nil {
		return nil, err
	}
	select {
	case q.places <- struct{}{}:
		return func() {
			<-q.places
			t.quit(user, q)
		}, nil
	case <-ctx.Done():
		t.quit(user, q)
		return nil, fmt.Errorf("wait for other templates of %s: %w", user, ctx.Err())
	}
}

func (t *turns) join(user string) (*queue, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	q := t.users[user]
	if q == nil {
		q = &queue{places: make(chan struct{}, atOnce)}
		t.users[user] = q
	}
	if q.members >= atOnce+waiting {
		return nil, fmt.Errorf("more than %d templates of %s at the same time", q.members, user)
	}
	q.members++
	return q, nil
}

func (t *turns) quit(user string, q *queue) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if q.members--; q.members == 0 {
		delete(t.users, user)
	}
}

// userOf is whose template is asked about. All ServiceAccounts of a namespace count as one: its owner
// makes as many as he likes.
func userOf(ctx context.Context) string {
	request, err := ctrladmission.RequestFromContext(ctx)
	if err != nil {
		return ""
	}
	const serviceAccount = "system:serviceaccount:"
	if account, ok := strings.CutPrefix(request.UserInfo.Username, serviceAccount); ok {
		namespace, _, _ := strings.Cut(account, ":")
		return serviceAccount + namespace
	}
	return request.UserInfo.Username
}
