// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// What a namespace may have of KillRequests, for the manager keeps all of them in memory: how many
// that are not over, how many in all, and how many nodes and values of labels they name, in their specs and statuses.
const (
	maxOpen  = 200
	maxKept  = 2000
	maxNamed = 50_000
)

// requestBounds refuses KillRequests above the bounds of their namespace. What was created a moment
// ago may not be known yet.
type requestBounds struct{ reader client.Reader }

var _ ctrladmission.Validator[*v1alpha1.KillRequest] = (*requestBounds)(nil)

// ValidateCreate counts what the namespace of a new request has.
func (b *requestBounds) ValidateCreate(ctx context.Context, kr *v1alpha1.KillRequest) (ctrladmission.Warnings, error) {
	namespace := kr.Namespace
	if request, err := ctrladmission.RequestFromContext(ctx); err == nil && namespace == "" {
		namespace = request.Namespace
	}
	list := &v1alpha1.KillRequestList{}
	if err := b.reader.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("count the KillRequests of namespace %s: %w", namespace, err)
	}
	open, named := 0, namedBy(kr)
	for i := range list.Items {
		known := &list.Items[i]
		named += namedBy(known)
		if known.Status.CompletionTime == nil {
			open++
		}
	}
	const cure = "delete those that are over, or let them be deleted by spec.ttlSecondsAfterFinished"
	switch {
	case open >= maxOpen:
		return nil, tooMany(kr, "namespace %s has %d KillRequests that are not over, and may have %d: wait for them, or delete some", namespace, open, maxOpen)
	case len(list.Items) >= maxKept:
		return nil, tooMany(kr, "namespace %s has %d KillRequests, and may have %d: %s", namespace, len(list.Items), maxKept, cure)
	case named > maxNamed:
		return nil, tooMany(kr, "the KillRequests of namespace %s would name %d nodes and values of labels, and may name %d: %s", namespace, named, maxNamed, cure)
	}
	return nil, nil
}

// namedBy counts the nodes that a request names, and the labels and values of its selector.
func namedBy(kr *v1alpha1.KillRequest) int {
	named := len(kr.Spec.Nodes.Names) + len(kr.Status.NodeStates)
	if selector := kr.Spec.Nodes.Selector; selector != nil {
		named += len(selector.MatchLabels) + len(selector.MatchExpressions)
		for i := range selector.MatchExpressions {
			named += len(selector.MatchExpressions[i].Values)
		}
	}
	return named
}

func tooMany(kr *v1alpha1.KillRequest, format string, args ...any) error {
	return apierrors.NewForbidden(v1alpha1.GroupVersion.WithResource("killrequests").GroupResource(), kr.Name, fmt.Errorf(format, args...))
}

// ValidateUpdate refuses nothing.
func (*requestBounds) ValidateUpdate(context.Context, *v1alpha1.KillRequest, *v1alpha1.KillRequest) (ctrladmission.Warnings, error) {
	return nil, nil
}

// ValidateDelete refuses nothing.
func (*requestBounds) ValidateDelete(context.Context, *v1alpha1.KillRequest) (ctrladmission.Warnings, error) {
	return nil, nil
}

// byKind answers about each kind by its own handler.
type byKind map[string]ctrladmission.Handler

// Handle implements admission.Handler. What is not known is not refused.
func (k byKind) Handle(ctx context.Context, req ctrladmission.Request) ctrladmission.Response {
	if handler := k[req.Kind.Kind]; handler != nil {
		return handler.Handle(ctx, req)
	}
	return ctrladmission.Allowed("")
}
