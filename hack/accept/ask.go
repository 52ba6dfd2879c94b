// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/localstack"
)

// namespace is where the ManagedWorkloads would be.
const namespace = "accept"

// webhookTimeout is how long the API server may need to find the manager's webhook.
const webhookTimeout = time.Minute

// verdict is what the API server and the manager say of a template.
type verdict struct {
	Template string    `json:"template"`
	Refused  []refusal `json:"refused,omitempty"`
	Ignored  []string  `json:"ignored,omitempty"`
	// Warnings are those that are not about an ignored field.
	Warnings []string `json:"warnings,omitempty"`
}

// refusal is a field that is refused, and why or what to do instead.
type refusal struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}

// asker creates ManagedWorkloads by dry run.
type asker struct {
	client   client.Client
	warnings *warnings
}

// warnings are those of one request.
type warnings struct{ texts []string }

// HandleWarningHeader keeps a warning.
func (w *warnings) HandleWarningHeader(_ int, _, text string) { w.texts = append(w.texts, text) }

func newAsker(ctx context.Context, stack *localstack.Stack) (*asker, error) {
	a := &asker{warnings: &warnings{}}
	config := stack.RESTConfig()
	config.WarningHandler = a.warnings
	var err error
	if a.client, err = client.New(config, client.Options{Scheme: scheme.Scheme}); err != nil {
		return nil, err
	}
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, localstack.Grant(namespace, localstack.TokensRole),
	} {
		if err := a.client.Create(ctx, object); err != nil {
			return nil, err
		}
	}
	return a, a.awaitWebhook(ctx)
}

// awaitWebhook waits until the manager is asked: it refuses what the API server alone
// accepts.
func (a *asker) awaitWebhook(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, webhookTimeout)
	defer cancel()
	probe, err := parse("probe", []byte(`{spec: {containers: [{name: c, image: i}], schedulingGates: [{name: example.com/gate}]}}`))
	if err != nil {
		return err
	}
	for {
		v, err := a.ask(ctx, probe)
		if err == nil && len(v.Refused) > 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(errors.New("the API server does not ask the manager's webhook"), err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// ask makes what a DaemonSet of the template comes with, and asks about the template.
func (a *asker) ask(ctx context.Context, t podTemplate) (verdict, error) {
	if err := a.prepare(ctx, t.typed.Spec); err != nil {
		return verdict{}, err
	}
	a.warnings.texts = nil
	mw := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": t.raw}}}
	mw.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("ManagedWorkload"))
	mw.SetNamespace(namespace)
	mw.SetName(t.name)
	err := a.client.Create(ctx, mw, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
	v := verdict{Template: t.name}
	v.sort(a.warnings.texts)
	var status apierrors.APIStatus
	switch {
	case err == nil:
	case errors.As(err, &status) && (apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err)):
		v.Refused = refusals(status.Status())
	default:
		return v, err
	}
	return v, nil
}

// sort sorts warnings by whether they are about ignored fields.
func (v *verdict) sort(texts []string) {
	for _, text := range texts {
		if path, ignored := strings.CutSuffix(text, " is ignored"); ignored {
			v.Ignored = append(v.Ignored, path)
		} else if !slices.Contains(v.Warnings, text) {
			v.Warnings = append(v.Warnings, text)
		}
	}
}

func refusals(status metav1.Status) []refusal {
	if status.Details == nil || len(status.Details.Causes) == 0 {
		return []refusal{{Message: status.Message}}
	}
	list := make([]refusal, 0, len(status.Details.Causes))
	for _, cause := range status.Details.Causes {
		list = append(list, refusal{Path: cause.Field, Message: cause.Message})
	}
	return list
}

// prepare makes the objects that admission looks for, as they would come with the
// DaemonSet: its service account, its priority class, its runtime class.
func (a *asker) prepare(ctx context.Context, spec corev1.PodSpec) error {
	name := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
	// kube-controller-manager makes the default one too.
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: cmp.Or(spec.ServiceAccountName, spec.DeprecatedServiceAccount, "default"),
	}}
	objects := []client.Object{account}
	if class := spec.PriorityClassName; class != "" && !strings.HasPrefix(class, "system-") {
		objects = append(objects, &schedulingv1.PriorityClass{ObjectMeta: name(class), Value: 1000})
	}
	if class := spec.RuntimeClassName; class != nil {
		objects = append(objects, &nodev1.RuntimeClass{ObjectMeta: name(*class), Handler: "handler"})
	}
	for _, object := range objects {
		if err := a.client.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("make %T %s: %w", object, object.GetName(), err)
		}
	}
	return nil
}
