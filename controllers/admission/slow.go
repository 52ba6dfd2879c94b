// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

const (
	// slowAnswer is how long the answer about a template takes at least where the admission of a
	// namespace counts as slow, as behind a webhook that does not answer.
	slowAnswer = time.Second
	// slowFor is how long that is remembered.
	slowFor = 5 * time.Minute
)

// errSlow is why a template is not asked about now.
var errSlow = errors.New("admission in this namespace is slow, and another template of the namespace is being asked about")

// namespaces are those in which templates are asked about, or were slowly. Where admission is
// slow, one template is asked about at a time: a worker of the manager waits for each answer,
// and the others are for other namespaces.
type namespaces struct {
	mu    sync.Mutex
	known map[string]*answers
}

// answers are those of the admission of one namespace.
type answers struct {
	// begun is when the questions that are under way began, the earliest first.
	begun []time.Time
	// slowUntil is until when the namespace counts as slow.
	slowUntil time.Time
}

func (a *answers) slow(now time.Time) bool {
	return now.Before(a.slowUntil) || len(a.begun) > 0 && now.Sub(a.begun[0]) >= slowAnswer
}

// begin begins a question; end ends it. It never waits: the error is errSlow.
func (n *namespaces) begin(namespace string) (end func(), err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.known == nil {
		n.known = map[string]*answers{}
	}
	a, now := n.known[namespace], time.Now()
	if a == nil {
		a = &answers{}
		n.known[namespace] = a
	}
	if len(a.begun) > 0 && a.slow(now) {
		return nil, errSlow
	}
	a.begun = append(a.begun, now)
	return func() { n.end(a, now) }, nil
}

func (n *namespaces) end(a *answers, began time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	i := slices.Index(a.begun, began)
	a.begun = slices.Delete(a.begun, i, i+1)
	a.slowUntil = time.Time{}
	if now.Sub(began) >= slowAnswer {
		a.slowUntil = now.Add(slowFor)
	}
	maps.DeleteFunc(n.known, func(_ string, a *answers) bool { return len(a.begun) == 0 && !a.slow(now) })
}

// askInTurn is ask, where the admission of the namespace has a place for the question.
func (j *Judge) askInTurn(ctx context.Context, mw *v1alpha1.ManagedWorkload, t *corev1.PodTemplateSpec, noTokens bool) (*corev1.Pod, *metav1.Status, error) {
	end, err := j.namespaces.begin(mw.Namespace)
	if err != nil {
		return nil, nil, err
	}
	defer end()
	return j.ask(ctx, mw, t, noTokens)
}
