// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package writes

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// RequestEnd writes the grace period of the end that is to come, or is under way,
// and who asked for it.
func RequestEnd(ctx context.Context, c client.Client, nw *v1alpha1.NodeWorkload, grace *int64, by string) error {
	base := nw.DeepCopy()
	nw.Spec.DeletionGracePeriodSeconds = shrunkGrace(&nw.Spec, grace)
	if nw.DeletionTimestamp.IsZero() && nw.Annotations[v1alpha1.AnnotationRequestedBy] == "" {
		metav1.SetMetaDataAnnotation(&nw.ObjectMeta, v1alpha1.AnnotationRequestedBy, by)
	}
	if ptr.Equal(base.Spec.DeletionGracePeriodSeconds, nw.Spec.DeletionGracePeriodSeconds) &&
		base.Annotations[v1alpha1.AnnotationRequestedBy] == nw.Annotations[v1alpha1.AnnotationRequestedBy] {
		return nil
	}
	if err := c.Patch(ctx, nw, Locked(base)); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("request the end of NodeWorkload %q: %w", nw.Name, err)
	}
	return nil
}

// shrunkGrace is the deletionGracePeriodSeconds that a NodeWorkload should have
// when seconds are wanted: never more than it has now, nor than its template's
// grace period, because it may only shrink, and never what the API does not take. A
// NodeWorkload that the manager did not create may lack the default.
func shrunkGrace(spec *v1alpha1.NodeWorkloadSpec, wanted *int64) *int64 {
	current := spec.DeletionGracePeriodSeconds
	if wanted == nil {
		return current
	}
	most := ptr.Deref(current, ptr.Deref(spec.Template.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds))
	return new(max(min(most, *wanted), 0))
}
