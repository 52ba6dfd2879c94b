// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/admitted"
	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

const (
	// goodFor is how long an answer holds for further nodes: as long as it takes to give
	// many of them what was asked about. After a change of labels it is also the time until
	// it is asked once more: what judges may have seen the change later than the manager.
	goodFor = 10 * time.Second
	// changedRecheck is how long an answer that changes the template is kept.
	changedRecheck = time.Hour
	// silence is how long nothing of a namespace is asked for which no node waits after a question without
	// an answer, and patience how long such a question may take.
	silence  = 30 * time.Second
	patience = 3 * time.Second
)

// Answer is what admission says now about a template that it admitted before.
type Answer struct {
	// Refused are its words if it would refuse the template now.
	Refused string
	// Changed: it would make another template of it now.
	Changed bool
	// Recheck is when it is asked again although no node waits for the answer; zero: never.
	Recheck time.Time
}

// againKey is what was asked about: a template of a workload. Nodes that an update may not
// reach get another one than the rest.
type againKey struct {
	workload types.NamespacedName
	hash     string
}

// answerAgain is an answer, and what it goes by.
type answerAgain struct {
	Answer
	uid      types.UID
	security string
	at       time.Time
}

// Again asks what admission would make now of a template that it admitted before: when
// nothing is known about it, when the namespace's PodSecurity labels are others, when a
// recheck is due, and when the template spreads, which means that a node gets it that did
// not have it. Nothing is changed by the answer but who else gets the template: what runs
// stays. The error is one of asking, and of a template that spreads only: for others the
// answer of before holds.
func (j *Judge) Again(ctx context.Context, mw *v1alpha1.ManagedWorkload, before *corev1.PodTemplateSpec, spreads bool, now time.Time) (Answer, error) {
	security, err := j.podSecurity(ctx, mw.Namespace)
	if err != nil {
		return Answer{}, err
	}
	key := againKey{client.ObjectKeyFromObject(mw), template.Hash(before)}
	j.mu.Lock()
	known, silent := j.again[key], j.silent[mw.Namespace]
	j.mu.Unlock()
	if known.uid != mw.UID {
		known = answerAgain{uid: mw.UID}
	}
	switch {
	case !known.due(security, spreads, now):
		return known.Answer, nil
	case spreads:
		answer, err := j.askAgain(ctx, mw, before, now)
		if err != nil {
			return known.Answer, err
		}
		known.Answer = answer
	case now.Before(silent):
		known.Recheck = silent
		return known.Answer, nil
	default:
		asking, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		answer, err := j.askAgain(asking, mw, before, now)
		if errors.Is(err, errSlow) {
			known.Recheck = now.Add(goodFor)
			return known.Answer, nil
		}
		if err != nil {
			logr.FromContextOrDiscard(ctx).Info("Failed to ask admission about the template again; retrying", "reason", err.Error())
			known.Recheck = j.hush(mw.Namespace, now)
			return known.Answer, nil
		}
		known.Answer = answer
	}
	if !known.at.IsZero() && known.security != security {
		known.Recheck = now.Add(goodFor)
	}
	known.security, known.at = security, now
	j.remember(key, known)
	return known.Answer, nil
}

// due reports whether admission is to be asked.
func (a *answerAgain) due(security string, spreads bool, now time.Time) bool {
	return a.at.IsZero() || a.security != security ||
		(!a.Recheck.IsZero() && !now.Before(a.Recheck)) ||
		(spreads && !now.Before(a.at.Add(goodFor)))
}

// askAgain asks what admission would make of an admitted template. What a ServiceAccount
// gives does not change a template that was admitted without it: the user's next one gets
// it. The number of its priority class stays, as in a Pod, whatever the class is now.
func (j *Judge) askAgain(ctx context.Context, mw *v1alpha1.ManagedWorkload, before *corev1.PodTemplateSpec, now time.Time) (Answer, error) {
	without := admitted.WithoutAccount(&before.Spec)
	asked := before.DeepCopy()
	asked.Spec.Priority = nil // admission refuses a number that is not that of the class
	pod, refusal, err := j.askInTurn(ctx, mw, asked, without)
	switch {
	case err != nil:
		return Answer{}, err
	case refusal != nil:
		return Answer{Refused: inTemplate(refusal), Recheck: now.Add(lastRecheck)}, nil
	}
	after := admitted.Question{NoTokens: without || j.options.NoTokens}.Template(pod, before)
	after.Spec.Priority = before.Spec.Priority
	if without {
		admitted.KeepAccount(after, before)
	}
	words, err := j.pinHandler(ctx, after)
	switch {
	case err != nil:
		return Answer{}, err
	case words != "":
		return Answer{Refused: words, Recheck: now.Add(lastRecheck)}, nil
	case template.Hash(after) != template.Hash(before):
		return Answer{Changed: true, Recheck: now.Add(changedRecheck)}, nil
	}
	return Answer{}, nil
}

// hush notes that a question of a namespace was not answered, and returns when its next is asked.
func (j *Judge) hush(namespace string, now time.Time) time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	maps.DeleteFunc(j.silent, func(_ string, until time.Time) bool { return !now.Before(until) })
	until := now.Add(silence)
	j.silent[namespace] = until
	return until
}

// remember keeps an answer, and drops those about templates of the workload that were not
// asked about for long.
func (j *Judge) remember(key againKey, known answerAgain) {
	j.mu.Lock()
	defer j.mu.Unlock()
	maps.DeleteFunc(j.again, func(k againKey, a answerAgain) bool {
		return k.workload == key.workload && a.at.Before(known.at.Add(-changedRecheck))
	})
	j.again[key] = known
}

// podSecurity are the labels of a namespace by which PodSecurity admission judges.
func (j *Judge) podSecurity(ctx context.Context, namespace string) (string, error) {
	ns := &corev1.Namespace{}
	if err := j.client.Get(ctx, types.NamespacedName{Name: namespace}, ns); err != nil {
		return "", fmt.Errorf("get namespace %q: %w", namespace, err)
	}
	return PodSecurity(ns), nil
}

// PodSecurity are the labels of a namespace by which PodSecurity admission judges, as
// one text.
func PodSecurity(ns *corev1.Namespace) string {
	const prefix = "pod-security.kubernetes.io/"
	var text strings.Builder
	for _, kind := range []string{"enforce", "enforce-version"} {
		text.WriteString(ns.Labels[prefix+kind] + "/")
	}
	return text.String()
}
