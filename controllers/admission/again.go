// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// goodFor is how long an answer to Again holds: as long as it takes to give many new
// nodes what was asked about.
const goodFor = 10 * time.Second

// Answer is what admission says now about a template that it admitted before.
type Answer struct {
	// Refused are its words if it would refuse the template now.
	Refused string
	// Changed: it would make another template of it now.
	Changed bool
	// Recheck is when a refusal is looked at again; zero: never.
	Recheck time.Time
}

// answerAgain is an answer, and what it is about.
type answerAgain struct {
	Answer
	uid      types.UID
	hash     string
	security string
	at       time.Time
}

// Again asks what admission would make now of a template that it admitted before: when
// nothing is known about it, after a refusal, when the namespace's PodSecurity labels are
// others, and when the template spreads, which means that a node gets it that did not have
// it. Nothing is changed by the answer but who else gets the template: what runs stays.
func (j *Judge) Again(ctx context.Context, mw *v1alpha1.ManagedWorkload, admitted *corev1.PodTemplateSpec, spreads bool, now time.Time) (Answer, error) {
	security, err := j.podSecurity(ctx, mw.Namespace)
	if err != nil {
		return Answer{}, err
	}
	name, hash := client.ObjectKeyFromObject(mw), template.Hash(admitted)
	j.mu.Lock()
	known, ok := j.again[name]
	j.mu.Unlock()
	same := ok && known.uid == mw.UID && known.hash == hash && known.security == security
	matters := spreads || known.Refused != ""
	if same && (!matters || now.Before(known.at.Add(goodFor))) {
		return known.Answer, nil
	}
	pod, refusal, err := j.ask(ctx, mw, admitted)
	if err != nil {
		return Answer{}, err
	}
	known = answerAgain{uid: mw.UID, hash: hash, security: security, at: now}
	if refusal != nil {
		known.Refused, known.Recheck = inTemplate(refusal), now.Add(lastRecheck)
	} else {
		known.Changed = template.Hash(admittedTemplate(pod, admitted)) != hash
	}
	j.remember(name, known)
	return known.Answer, nil
}

func (j *Judge) remember(name types.NamespacedName, known answerAgain) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.again[name] = known
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
