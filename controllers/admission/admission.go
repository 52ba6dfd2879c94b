// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/admitted"
	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// A refused template is tried again, because what refuses it may change without a
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
	// Admitted is what runs of an accepted template: what admission made of it.
	Admitted *corev1.PodTemplateSpec
}

// Question is what is asked about the template of a ManagedWorkload.
type Question struct {
	Workload *v1alpha1.ManagedWorkload
	// Template is that of Workload with its defaults.
	Template *corev1.PodTemplateSpec
	// Placed is what admission made of this template before; nil if it was not asked. It is
	// called only where the judge does not know.
	Placed func() (*corev1.PodTemplateSpec, error)
	Now    time.Time
}

// Judge decides whether a template is accepted: by the table of fields, and by the
// API server, which is asked to admit it as a Pod. It remembers the last verdict on
// each ManagedWorkload.
type Judge struct {
	client  client.Client
	options Options

	mu    sync.Mutex
	known map[types.NamespacedName]knownVerdict
	again map[againKey]answerAgain
	// silent is until when admission is not asked what no node waits for, by namespace: a webhook may fail for
	// one.
	silent map[string]time.Time

	namespaces namespaces
}

type knownVerdict struct {
	Verdict
	uid        types.UID
	generation int64
	asked      int
}

// Options are what an administrator decides about templates.
type Options struct {
	// IgnoreQuotas: workloads may use what quotas do not leave for Pods, and templates are
	// accepted in namespaces whose quotas do not count them.
	IgnoreQuotas bool
	// NoTokens: the component objects is not installed, so nothing gives nodes ConfigMaps,
	// Secrets and tokens. A template that is silent about its token gets none; one that needs
	// an object is refused.
	NoTokens bool
	// Tokens knows of which service accounts nodes get tokens; nil where that is not asked.
	Tokens TokenRights
}

// NewJudge returns a judge that asks the API server of c.
func NewJudge(c client.Client, o Options) *Judge {
	return &Judge{
		client: c, options: o,
		known: map[types.NamespacedName]knownVerdict{}, again: map[againKey]answerAgain{}, silent: map[string]time.Time{},
	}
}

// Verdict returns the verdict on a template. One that was admitted before is not asked
// about again: a full quota, a stricter namespace or a webhook that is away do not stop
// what runs, as little as they stop a Pod, and a webhook that answers differently each
// time changes nothing. The error is one of asking, to be tried again.
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
	v := j.checkFields(q.Workload)
	if v.Accepted {
		made, refused, err := j.admit(ctx, q)
		if err != nil {
			return Verdict{}, err
		}
		v.Admitted = made
		if about := j.aboutAccount(&q.Workload.Spec.Template, made); about != "" {
			v.Message += "; " + about
		}
		if len(v.Ignored) > 0 {
			v.Message += "; ignored: " + strings.Join(v.Ignored, ", ")
		}
		if injected := injectedInVain(made, q.Template); len(injected) > 0 {
			v.Message += "; injected by admission and ignored: " + strings.Join(injected, ", ")
		}
		if refused != nil {
			v.Accepted, v.Reason, v.Message = false, refused.reason, refused.message
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
	maps.DeleteFunc(j.again, func(k againKey, _ answerAgain) bool { return k.workload == name })
}

// refusal is why a template is not admitted.
type refusal struct{ reason, message string }

// admit asks what admission makes of a template, unless it has said so before.
func (j *Judge) admit(ctx context.Context, q Question) (*corev1.PodTemplateSpec, *refusal, error) {
	if q.Placed != nil {
		if placed, err := q.Placed(); err != nil || placed != nil {
			return placed, nil, err
		}
	}
	if errs := j.needsObjects(&q.Workload.Spec.Template); len(errs) > 0 {
		return nil, &refusal{v1alpha1.ReasonRefusedFields, words(errs)}, nil
	}
	security, err := j.podSecurity(ctx, q.Workload.Namespace)
	if err != nil {
		return nil, nil, err
	}
	pod, refused, err := j.askInTurn(ctx, q.Workload, q.Template, j.options.NoTokens)
	if err != nil {
		return nil, nil, err
	}
	if refused != nil {
		return nil, &refusal{v1alpha1.ReasonInvalidTemplate, inTemplate(refused)}, nil
	}
	t := admitted.Question{NoTokens: j.options.NoTokens}.Template(pod, q.Template)
	if words, err := j.pinHandler(ctx, t); err != nil || words != "" {
		return nil, &refusal{v1alpha1.ReasonInvalidTemplate, words}, err
	}
	if words := cmp.Or(refusedFields(t), words(j.needsObjects(t))); words != "" {
		return nil, &refusal{v1alpha1.ReasonRefusedFields, "injected by admission: " + words}, nil
	}
	if words, err := j.uncounted(ctx, pod); err != nil || words != "" {
		return nil, &refusal{v1alpha1.ReasonQuotaDoesNotCount, words}, err
	}
	if missing, err := j.needsTokenRight(ctx, q.Workload, t); err != nil || missing != nil {
		return nil, noRight(missing), err
	}
	j.remember(againKey{client.ObjectKeyFromObject(q.Workload), template.Hash(t)},
		answerAgain{uid: q.Workload.UID, security: security, at: q.Now})
	return t, nil, nil
}

var templatePath = field.NewPath("spec", "template")

// negativeGrace refuses a negative grace period, which the API server would take for 1.
func negativeGrace(t *corev1.PodTemplateSpec) *field.Error {
	if grace := t.Spec.TerminationGracePeriodSeconds; grace != nil && *grace < 0 {
		return field.Invalid(templatePath.Child("spec", "terminationGracePeriodSeconds"), *grace, "must be greater than or equal to 0")
	}
	return nil
}

// checkFields is the verdict of the table of template fields. What needs the component
// objects refuses nothing that was admitted before; it is named beside what is refused.
func (j *Judge) checkFields(mw *v1alpha1.ManagedWorkload) Verdict {
	refused, ignored := template.Check(&mw.Spec.Template, templatePath)
	refused = append(refused, ownAnnotations(&mw.Spec.Template)...)
	if len(refused) > 0 {
		refused = append(refused, besidesSaid(refused, j.needsObjects(&mw.Spec.Template))...)
		return Verdict{Reason: v1alpha1.ReasonRefusedFields, Message: words(refused)}
	}
	if err := negativeGrace(&mw.Spec.Template); err != nil {
		return Verdict{Reason: v1alpha1.ReasonInvalidTemplate, Message: err.Error()}
	}
	return Verdict{Accepted: true, Reason: v1alpha1.ReasonAccepted, Message: "the template is accepted", Ignored: ignored}
}

// injectedInVain are the paths that admission added to a template and that have no effect.
// user is the template with its defaults.
func injectedInVain(t, user *corev1.PodTemplateSpec) []string {
	if t == nil {
		return nil
	}
	_, now := template.Check(t, templatePath)
	_, before := template.Check(user, templatePath)
	return slices.DeleteFunc(now, func(path string) bool { return slices.Contains(before, path) })
}

// refusedFields are the fields of a template that cannot be honoured, "" if there are none.
func refusedFields(t *corev1.PodTemplateSpec) string {
	refused, _ := template.Check(t, templatePath)
	return words(refused)
}

func words(errs field.ErrorList) string {
	list := make([]string, 0, len(errs))
	for _, err := range errs {
		list = append(list, err.Error())
	}
	return strings.Join(list, "; ")
}

// nameLength is the length of what makes the name of the Pod that is asked about
// unguessable: no policy can be written for it.
const nameLength = 12

// ask lets the API server admit a template as a Pod without creating it. It returns the
// Pod as it was admitted, or how the API server refuses it. A refusal with an error is one that
// passes by itself.
func (j *Judge) ask(ctx context.Context, mw *v1alpha1.ManagedWorkload, t *corev1.PodTemplateSpec, noTokens bool) (*corev1.Pod, *metav1.Status, error) {
	name := "w" + utilrand.String(nameLength)
	pod := admitted.Question{Namespace: mw.Namespace, Name: name, NoTokens: noTokens}.Pod(t)
	err := j.client.Create(ctx, pod, client.DryRunAll)
	switch {
	case err == nil:
		return pod, nil, nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) || !isRefusal(err):
		return nil, nil, fmt.Errorf("ask the API server to admit the template: %w", err)
	}
	refused := &metav1.Status{Message: err.Error()}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		refused = new(status.Status())
	}
	// The name is another one each time.
	known := cmp.Or(mw.Name, mw.GenerateName)
	refused.Message = strings.ReplaceAll(refused.Message, name, known)
	if refused.Details != nil {
		for i := range refused.Details.Causes {
			cause := &refused.Details.Causes[i]
			cause.Message = strings.ReplaceAll(cause.Message, name, known)
		}
	}
	if noAccountYet(err, mw.Namespace) {
		return nil, refused, fmt.Errorf("ask the API server to admit the template: %w", err)
	}
	return nil, refused, nil
}

// inTemplate is what the API server says about a Pod, in the paths of the template:
// the user did not write the Pod that it names.
func inTemplate(status *metav1.Status) string {
	causes := causesInTemplate(status)
	if len(causes) == 0 {
		return status.Message
	}
	parts := make([]string, 0, len(causes))
	for _, cause := range causes {
		parts = append(parts, cause.Field+": "+cause.Message)
	}
	return strings.Join(parts, "; ")
}

// causesInTemplate are the fields that the API server finds wrong, by their paths in the
// template; none if it refuses for something else.
func causesInTemplate(status *metav1.Status) []metav1.StatusCause {
	if status.Reason != metav1.StatusReasonInvalid || status.Details == nil {
		return nil
	}
	causes := slices.Clone(status.Details.Causes)
	for i := range causes {
		if causes[i].Field == "" {
			return nil
		}
		causes[i].Field = templatePath.String() + "." + causes[i].Field
	}
	return causes
}

// noAccount is what the API server says about a Pod whose service account is not there.
// (kubernetes plugin/pkg/admission/serviceaccount)
const noAccount = "error looking up service account "

// noAccountYet reports that a namespace was just made, and that the account of its Pods is
// on its way.
func noAccountYet(err error, namespace string) bool {
	return strings.Contains(err.Error(), noAccount+namespace+"/default:")
}

// isRefusal reports whether the API server refused, and not that it cannot decide
// now. A webhook that denies without a code is a bad request.
func isRefusal(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsRequestEntityTooLargeError(err)
}
