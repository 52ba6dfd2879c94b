// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// A refused template is tried again, because what refuses it may change without a
// word: a namespace's PodSecurity level, a ServiceAccount, a quota.
const (
	firstRecheck = 2 * time.Second
	lastRecheck  = time.Minute
)

// verdict says whether a template is accepted, and why not.
type verdict struct {
	accepted bool
	// undecided: the API server could not be asked.
	undecided bool
	reason    string
	message   string
	// withoutMeaning are the paths that are accepted and have no effect.
	withoutMeaning []string
	// recheck is when a refusal is looked at again; zero: never.
	recheck time.Time
}

// admission decides whether a template is accepted: by the table of fields, and
// by the API server, which is asked to admit it as a Pod. It remembers the last
// verdict on each ManagedWorkload.
type admission struct {
	client client.Client

	mu    sync.Mutex
	known map[types.NamespacedName]knownVerdict
}

type knownVerdict struct {
	verdict
	uid        types.UID
	generation int64
	asked      int
}

func newAdmission(c client.Client) *admission {
	return &admission{client: c, known: map[types.NamespacedName]knownVerdict{}}
}

// judge returns the verdict on the template of s. One that a node has was accepted
// before, and the API server is not asked again: a full quota, a stricter namespace
// or a webhook that is away do not stop what runs, as little as they stop a Pod.
// The error is one of asking, to be tried again.
func (a *admission) judge(ctx context.Context, s *scope) (verdict, error) {
	name := client.ObjectKeyFromObject(s.mw)
	a.mu.Lock()
	known, ok := a.known[name]
	a.mu.Unlock()
	if !ok || known.uid != s.mw.UID || known.generation != s.mw.Generation {
		known = knownVerdict{uid: s.mw.UID, generation: s.mw.Generation}
	} else if known.accepted || known.recheck.IsZero() || s.now.Before(known.recheck) {
		return known.verdict, nil
	}
	v := checkFields(s.mw)
	if v.accepted && !s.hasTemplateSomewhere() {
		refusal, err := a.ask(ctx, podOf(s.mw, s.podName()))
		if err != nil {
			return verdict{}, err
		}
		if refusal != "" {
			v.accepted, v.reason, v.message = false, v1alpha1.ReasonInvalidTemplate, refusal
			v.recheck = s.now.Add(min(firstRecheck<<min(known.asked, 10), lastRecheck))
		}
	}
	known.verdict = v
	known.asked++
	a.mu.Lock()
	a.known[name] = known
	a.mu.Unlock()
	return v, nil
}

// hasTemplateSomewhere reports whether a node has the current template already.
func (s *scope) hasTemplateSomewhere() bool {
	for _, nw := range s.nodeWorkloads {
		if template.Hash(&nw.Spec.Template) == s.hash {
			return true
		}
	}
	return false
}

func (a *admission) forget(name types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.known, name)
}

// checkFields is the verdict of the table of template fields.
func checkFields(mw *v1alpha1.ManagedWorkload) verdict {
	refused, withoutMeaning := template.Check(&mw.Spec.Template, field.NewPath("spec", "template"))
	if len(refused) > 0 {
		words := make([]string, 0, len(refused))
		for _, err := range refused {
			words = append(words, err.Error())
		}
		return verdict{reason: v1alpha1.ReasonRefusedFields, message: strings.Join(words, "; ")}
	}
	if grace := mw.Spec.Template.Spec.TerminationGracePeriodSeconds; grace != nil && *grace < 0 {
		// The API server would take it for 1.
		err := field.Invalid(field.NewPath("spec", "template", "spec", "terminationGracePeriodSeconds"), *grace, "must be greater than or equal to 0")
		return verdict{reason: v1alpha1.ReasonInvalidTemplate, message: err.Error()}
	}
	message := "the template is accepted"
	if len(withoutMeaning) > 0 {
		message += "; ignored: " + strings.Join(withoutMeaning, ", ")
	}
	return verdict{accepted: true, reason: v1alpha1.ReasonAccepted, message: message, withoutMeaning: withoutMeaning}
}

// podOf is the template of mw as a Pod that the API server may judge.
func podOf(mw *v1alpha1.ManagedWorkload, name string) *corev1.Pod {
	t := mw.Spec.Template.DeepCopy()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   mw.Namespace,
			Name:        name,
			Labels:      t.Labels,
			Annotations: t.Annotations,
		},
		Spec: t.Spec,
	}
	pod.Spec.AutomountServiceAccountToken = new(false)
	return pod
}

// storedVerdict is what was said about the template when it was judged last.
func storedVerdict(status *v1alpha1.ManagedWorkloadStatus) (verdict, bool) {
	c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionAccepted)
	if c == nil || c.Status == metav1.ConditionUnknown {
		return verdict{}, false
	}
	return verdict{accepted: c.Status == metav1.ConditionTrue, reason: c.Reason, message: c.Message}, true
}

// ask lets the API server admit a Pod without creating it. Only the verdict is
// used: refusal holds the API server's words, or is empty.
func (a *admission) ask(ctx context.Context, pod *corev1.Pod) (refusal string, err error) {
	err = a.client.Create(ctx, pod, client.DryRunAll)
	switch {
	case err == nil, apierrors.IsAlreadyExists(err):
		// A Pod of that name exists: everything that judges came before.
		return "", nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return "", fmt.Errorf("ask the API server to admit the template: %w", err)
	case isRefusal(err):
		var status apierrors.APIStatus
		if errors.As(err, &status) {
			return inTemplate(status.Status()), nil
		}
		return err.Error(), nil
	default:
		return "", fmt.Errorf("ask the API server to admit the template: %w", err)
	}
}

// inTemplate is what the API server says about a Pod, in the paths of the template:
// the user did not write the Pod that it names.
func inTemplate(status metav1.Status) string {
	if status.Reason != metav1.StatusReasonInvalid || status.Details == nil {
		return status.Message
	}
	var parts []string
	for _, cause := range status.Details.Causes {
		if cause.Field == "" {
			return status.Message
		}
		parts = append(parts, "spec.template."+cause.Field+": "+cause.Message)
	}
	if len(parts) == 0 {
		return status.Message
	}
	return strings.Join(parts, "; ")
}

// isRefusal reports whether the API server refused, and not that it cannot decide
// now. A webhook that denies without a code is a bad request.
func isRefusal(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsRequestEntityTooLargeError(err)
}
