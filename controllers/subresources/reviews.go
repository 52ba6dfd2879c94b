// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package subresources

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

const (
	// allowedFor and refusedFor are how long an answer is used again.
	allowedFor = 10 * time.Second
	refusedFor = 30 * time.Second
	// reviewTimeout bounds one question.
	reviewTimeout = 5 * time.Second
	// mostAnswers bounds the answers that are kept.
	mostAnswers = 8192
	// questionsOf is how many questions the users of a namespace, or one other user, cost the API server
	// within questionsTime.
	questionsOf   = 20
	questionsTime = 10 * time.Second
)

// ofOneToken are the extras that differ from token to token of one service account. They are no part
// of the question, so that the shims of all nodes need one answer: whether an account may
// report. Whose token it is, and where it is bound to, the gate checks itself.
var ofOneToken = []string{
	extraNodeName, extraNodeUID,
	"authentication.kubernetes.io/credential-id", "authentication.kubernetes.io/pod-name", "authentication.kubernetes.io/pod-uid",
}

// reviews asks the API server who may report, what makes a service account a shim. Who may not pays
// himself: refusals are kept, and questions are bounded by where their users come from.
type reviews struct {
	// shims asks about users that are likely to be shims: of the manager's namespace, or known to
	// be some. others asks about all others, who keep no shim waiting.
	shims, others client.Client
	namespace     string

	flights singleflight.Group
	mu      sync.Mutex
	answers map[[sha256.Size]byte]verdict
	// counts are the questions about the users of each origin.
	counts map[string]*count
}

// verdict is the answer of the API server: nil if the user may report.
type verdict struct {
	refused error
	until   time.Time
	// was: the user might report when he was asked about last.
	was bool
}

// count is how many questions there were since a time.
type count struct {
	since time.Time
	n     int
}

func newReviews(c client.Client) *reviews {
	return &reviews{shims: c, others: c, answers: map[[sha256.Size]byte]verdict{}, counts: map[string]*count{}}
}

// mayReport is nil if a user has the verb report on NodeWorkloads at cluster scope.
func (r *reviews) mayReport(ctx context.Context, u user.Info) error {
	spec := question(u)
	content, err := json.Marshal(spec)
	if err != nil {
		return fmt.Errorf("ask whether %s may report: %w", u.GetName(), err)
	}
	key := sha256.Sum256(content)
	last, known := r.known(key)
	if known {
		return last.refused
	}
	_, err, _ = r.flights.Do(string(key[:]), func() (any, error) {
		if !last.was && !r.mayAsk(originOf(u)) {
			return nil, apierrors.NewTooManyRequests("too many users of "+originOf(u)+" that may not report", int(questionsTime/time.Second))
		}
		// The answer is also for others that wait for it.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviewTimeout)
		defer cancel()
		return nil, r.ask(ctx, r.lane(u, last), key, spec)
	})
	return err
}

// lane is the client that asks about a user.
func (r *reviews) lane(u user.Info, last verdict) client.Client {
	namespace, _, err := serviceaccount.SplitUsername(u.GetName())
	if last.was || err == nil && namespace == r.namespace || slices.Contains(u.GetGroups(), user.NodesGroup) {
		return r.shims
	}
	return r.others
}

// originOf is whose users are counted together: who makes service accounts in a namespace has as
// many as he likes.
func originOf(u user.Info) string {
	if namespace, _, err := serviceaccount.SplitUsername(u.GetName()); err == nil {
		return "namespace " + namespace
	}
	return u.GetName()
}

// mayAsk reports whether another question about users of an origin is asked now.
func (r *reviews) mayAsk(origin string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(r.counts, func(_ string, a *count) bool { return now.Sub(a.since) >= questionsTime })
	a := r.counts[origin]
	if a == nil {
		a = &count{since: now}
		r.counts[origin] = a
	}
	a.n++
	return a.n <= questionsOf
}

// question is asked about a user. Nodes have their rights as a group, so that all need one answer.
func question(u user.Info) authorizationv1.SubjectAccessReviewSpec {
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range u.GetExtra() {
		extra[key] = values
	}
	for _, key := range ofOneToken {
		delete(extra, key)
	}
	name, uid := u.GetName(), u.GetUID()
	if _, is := nodeOf(u); is {
		name, uid = "", ""
	}
	return authorizationv1.SubjectAccessReviewSpec{
		User: name, UID: uid, Groups: u.GetGroups(), Extra: extra,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: v1alpha1.GroupVersion.Group, Version: v1alpha1.GroupVersion.Version, Resource: "nodeworkloads", Verb: "report",
		},
	}
}

func (r *reviews) ask(ctx context.Context, c client.Client, key [sha256.Size]byte, spec authorizationv1.SubjectAccessReviewSpec) error {
	review := &authorizationv1.SubjectAccessReview{Spec: spec}
	began := time.Now()
	if err := c.Create(ctx, review); err != nil {
		return fmt.Errorf("ask whether %s may report: %w", cmp.Or(spec.User, user.NodesGroup), err)
	}
	got := verdict{until: began.Add(allowedFor), was: true}
	if !review.Status.Allowed || review.Status.Denied {
		got = verdict{until: began.Add(refusedFor)}
		got.refused = refuse("%s may not report: it lacks the verb report on nodeworkloads.managedworkload.dev at cluster scope", cmp.Or(spec.User, user.NodesGroup))
	}
	r.keep(key, got)
	return got.refused
}

// keep remembers an answer. Where there are too many, what is over goes, then refusals.
func (r *reviews) keep(key [sha256.Size]byte, got verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(r.answers, func(_ [sha256.Size]byte, a verdict) bool { return now.After(a.until.Add(refusedFor)) })
	for known, a := range r.answers {
		if len(r.answers) < mostAnswers {
			break
		}
		if !a.was {
			delete(r.answers, known)
		}
	}
	r.answers[key] = got
}

// known is the last answer about a user, and whether it is used again.
func (r *reviews) known(key [sha256.Size]byte) (last verdict, valid bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, found := r.answers[key]
	return last, found && time.Now().Before(last.until)
}
