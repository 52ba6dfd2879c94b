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

// answerAgain is what admission said about a template that it had admitted before.
type answerAgain struct {
	uid      types.UID
	hash     string
	security string
	at       time.Time
	refused  string
}

// AskAgain reports whether Again has to be asked although no node is new: the last answer
// was a refusal, or the namespace's PodSecurity labels are not those of the last answer.
func (j *Judge) AskAgain(ctx context.Context, mw *v1alpha1.ManagedWorkload, admitted *corev1.PodTemplateSpec) (bool, error) {
	security, err := j.podSecurity(ctx, mw.Namespace)
	if err != nil {
		return false, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	name, hash := client.ObjectKeyFromObject(mw), template.Hash(admitted)
	known, ok := j.again[name]
	if !ok || known.uid != mw.UID || known.hash != hash {
		j.again[name] = answerAgain{uid: mw.UID, hash: hash, security: security}
		return false, nil
	}
	return known.refused != "" || known.security != security, nil
}

// Again asks whether admission would still let a template pass that it admitted before,
// and returns its words if not. Nothing is changed by the answer but who else gets the
// template: what runs stays. recheck is when a refusal is looked at again.
func (j *Judge) Again(ctx context.Context, mw *v1alpha1.ManagedWorkload, admitted *corev1.PodTemplateSpec, now time.Time) (refused string, recheck time.Time, err error) {
	security, err := j.podSecurity(ctx, mw.Namespace)
	if err != nil {
		return "", time.Time{}, err
	}
	name, hash := client.ObjectKeyFromObject(mw), template.Hash(admitted)
	j.mu.Lock()
	known, ok := j.again[name]
	j.mu.Unlock()
	if !ok || known.uid != mw.UID || known.hash != hash || known.security != security || !now.Before(known.at.Add(goodFor)) {
		_, refusal, err := j.ask(ctx, mw, admitted)
		if err != nil {
			return "", time.Time{}, err
		}
		known = answerAgain{uid: mw.UID, hash: hash, security: security, at: now}
		if refusal != nil {
			known.refused = inTemplate(refusal)
		}
		j.mu.Lock()
		j.again[name] = known
		j.mu.Unlock()
	}
	if known.refused == "" {
		return "", time.Time{}, nil
	}
	return known.refused, known.at.Add(lastRecheck), nil
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
