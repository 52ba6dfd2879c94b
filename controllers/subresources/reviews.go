// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package subresources

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

const (
	// allowedFor is how long the answer that a user may report is used again. A refusal is not
	// kept.
	allowedFor = 10 * time.Second
	// reviewTimeout bounds one question.
	reviewTimeout = 5 * time.Second
)

// ofOneToken are the extras that differ from token to token of one service account. They are no part
// of the question, so that the shims of all nodes need one answer: whether an account may
// report. Whose token it is, and where it is bound to, the gate checks itself.
var ofOneToken = []string{
	extraNodeName, extraNodeUID,
	"authentication.kubernetes.io/credential-id", "authentication.kubernetes.io/pod-name", "authentication.kubernetes.io/pod-uid",
}

// reviews asks the API server who may report, what makes a service account a shim.
type reviews struct {
	client client.Client

	flights singleflight.Group
	mu      sync.Mutex
	allowed map[string]time.Time
}

func newReviews(c client.Client) *reviews {
	return &reviews{client: c, allowed: map[string]time.Time{}}
}

// mayReport is nil if a user has the verb report on NodeWorkloads at cluster scope.
func (r *reviews) mayReport(ctx context.Context, u user.Info) error {
	spec := question(u)
	content, err := json.Marshal(spec)
	if err != nil {
		return fmt.Errorf("ask whether %s may report: %w", u.GetName(), err)
	}
	key := string(content)
	if r.known(key) {
		return nil
	}
	_, err, _ = r.flights.Do(key, func() (any, error) {
		// The answer is also for others that wait for it.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviewTimeout)
		defer cancel()
		return nil, r.ask(ctx, key, spec)
	})
	return err
}

func question(u user.Info) authorizationv1.SubjectAccessReviewSpec {
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range u.GetExtra() {
		extra[key] = values
	}
	for _, key := range ofOneToken {
		delete(extra, key)
	}
	return authorizationv1.SubjectAccessReviewSpec{
		User: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: extra,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: v1alpha1.GroupVersion.Group, Version: v1alpha1.GroupVersion.Version, Resource: "nodeworkloads", Verb: "report",
		},
	}
}

func (r *reviews) ask(ctx context.Context, key string, spec authorizationv1.SubjectAccessReviewSpec) error {
	review := &authorizationv1.SubjectAccessReview{Spec: spec}
	asked := time.Now()
	if err := r.client.Create(ctx, review); err != nil {
		return fmt.Errorf("ask whether %s may report: %w", spec.User, err)
	}
	if !review.Status.Allowed || review.Status.Denied {
		return refuse("%s may not report: it lacks the verb report on nodeworkloads.managedworkload.dev at cluster scope", spec.User)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.allowed, func(_ string, until time.Time) bool { return asked.After(until) })
	r.allowed[key] = asked.Add(allowedFor)
	return nil
}

func (r *reviews) known(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	until, known := r.allowed[key]
	return known && time.Now().Before(until)
}
