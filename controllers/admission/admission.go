// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// A refused template is tried again, for what refuses it may change without a
// word: a namespace's PodSecurity level, a ServiceAccount, a quota.
const (
	firstRecheck = 2 * time.Second
	lastRecheck  = time.Minute
)

// Verdict says whether a template is accepted, and why not.
type Verdict struct {
	Accepted bool
	// Undecided: the API server could not be asked.
	Undecided bool
	Reason    string
	Message   string
	// Ignored are the paths that are accepted and have no effect.
	Ignored []string
	// Recheck is when a refusal is looked at again; zero: never.
	Recheck time.Time
}

// Question is what is asked about the template of a ManagedWorkload.
type Question struct {
	Workload *v1alpha1.ManagedWorkload
	// PodName is the name of the Pod that the API server is asked to admit.
	PodName string
	// Placed: a node has this template already.
	Placed bool
	Now    time.Time
}

// Judge decides whether a template is accepted: by the table of fields, and by the
// API server, which is asked to admit it as a Pod. It remembers the last verdict on
// each ManagedWorkload.
type Judge struct {
	client client.Client

	mu    sync.Mutex
	known map[types.NamespacedName]knownVerdict
}

type knownVerdict struct {
	Verdict
	uid        types.UID
	generation int64
	asked      int
}

// NewJudge returns a judge that asks the API server of c.
func NewJudge(c client.Client) *Judge {
	return &Judge{client: c, known: map[types.NamespacedName]knownVerdict{}}
}

// Verdict returns the verdict on a template. One that a node has was accepted
// before, and the API server is not asked again: a full quota, a stricter namespace
// or a webhook that is away do not stop what runs, as little as they stop a Pod.
// The error is one of asking, to be tried again.
func (j *Judge) Verdict(ctx context.Context, q Question) (Verdict, error) {
	name := client.ObjectKeyFromObject(q.Workload)
	j.mu.Lock()
	known, ok := j.known[name]
	j.mu.Unlock()
	if !ok || known.uid != q.Workload.UID || known.generation != q.Workload.Generation {
		known = knownVerdict{uid: q.Workload.UID, generation: q.Workload.Generation}
	} else if known.Accepted || known.Recheck.IsZero() || q.Now.Before(known.Recheck) {
		return known.Verdict, nil
	}
	v := checkFields(q.Workload)
	if v.Accepted && !q.Placed {
		refusal, err := j.ask(ctx, podOf(q.Workload, q.PodName))
		if err != nil {
			return Verdict{}, err
		}
		if refusal != "" {
			v.Accepted, v.Reason, v.Message = false, v1alpha1.ReasonInvalidTemplate, refusal
			v.Recheck = q.Now.Add(min(firstRecheck<<min(known.asked, 10), lastRecheck))
		}
	}
	known.Verdict = v
	known.asked++
	j.mu.Lock()
	j.known[name] = known
	j.mu.Unlock()
	return v, nil
}

// Forget drops the verdict on an object that is gone.
func (j *Judge) Forget(name types.NamespacedName) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.known, name)
}

// checkFields is the verdict of the table of template fields.
func checkFields(mw *v1alpha1.ManagedWorkload) Verdict {
	refused, ignored := template.Check(&mw.Spec.Template, field.NewPath("spec", "template"))
	if len(refused) > 0 {
		words := make([]string, 0, len(refused))
		for _, err := range refused {
			words = append(words, err.Error())
		}
		return Verdict{Reason: v1alpha1.ReasonRefusedFields, Message: strings.Join(words, "; ")}
	}
	if grace := mw.Spec.Template.Spec.TerminationGracePeriodSeconds; grace != nil && *grace < 0 {
		// The API server would take it for 1.
		err := field.Invalid(field.NewPath("spec", "template", "spec", "terminationGracePeriodSeconds"), *grace, "must be greater than or equal to 0")
		return Verdict{Reason: v1alpha1.ReasonInvalidTemplate, Message: err.Error()}
	}
	message := "the template is accepted"
	if len(ignored) > 0 {
		message += "; ignored: " + strings.Join(ignored, ", ")
	}
	return Verdict{Accepted: true, Reason: v1alpha1.ReasonAccepted, Message: message, Ignored: ignored}
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

// ask lets the API server admit a Pod without creating it. Only the verdict is
// used: refusal holds the API server's words, or is empty.
func (j *Judge) ask(ctx context.Context, pod *corev1.Pod) (refusal string, err error) {
	err = j.client.Create(ctx, pod, client.DryRunAll)
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
