// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/controllers/fleet"
	"github.com/managedworkload/managedworkload/controllers/writes"
)

// maxRefusal bounds what a condition repeats of the API server's words.
const maxRefusal = 256

// resize asks for what is wanted where the Pod, which may be nil, requests something else.
func (r *Reconciler) resize(ctx context.Context, pod *Pod, want fleet.Amount, now time.Time, next *earliest) error {
	if pod == nil || !pod.Admitted || pod.Asked == want {
		return nil
	}
	known := r.memos.of(pod.Node)
	if known.refusedBy == pod.UID && known.refused == want && now.Sub(known.refusedAt) < r.timing.refusal {
		next.in(known.refusedAt.Add(r.timing.refusal).Sub(now))
		return nil
	}
	if since := now.Sub(known.resized); since < r.timing.spacing {
		next.in(r.timing.spacing - since)
		return nil
	}
	if !accept(r.resizes, next) {
		return nil
	}
	err := r.patch(ctx, pod, want)
	switch {
	case err == nil:
		r.memos.change(pod.Node, func(m *memo) { m.resized, m.refusedBy = now, "" })
		resizesTotal.WithLabelValues("asked").Inc()
		return nil
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
		next.in(r.timing.spacing)
		return nil
	case refused(err):
		logr.FromContextOrDiscard(ctx).Error(err, "The API server refused to resize a Pod", "pod", pod.Name, "node", pod.Node)
		r.memos.change(pod.Node, func(m *memo) {
			m.refusal, m.refused, m.refusedBy, m.refusedAt = writes.Limit(words(err), maxRefusal), want, pod.UID, now
		})
		resizesTotal.WithLabelValues("refused").Inc()
		next.in(r.timing.settle) // to say so
		return nil
	}
	return fmt.Errorf("resize Pod %q: %w", pod.Name, err)
}

// refused is whether the API server does not take a resize, now or later.
func refused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsMethodNotSupported(err)
}

// words are what the API server said, without what it was asked for: that would make conditions of
// one kind differ.
func words(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Message
	}
	return err.Error()
}

// patch changes what a Pod requests, unless it was replaced by another one.
func (r *Reconciler) patch(ctx context.Context, pod *Pod, want fleet.Amount) error {
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"spec": map[string]any{"containers": []any{map[string]any{
			"name": Container, "resources": map[string]any{"requests": corev1.ResourceList{
				corev1.ResourceCPU:    *resource.NewMilliQuantity(want.MilliCPU, resource.DecimalSI),
				corev1.ResourceMemory: *resource.NewQuantity(want.Memory, resource.BinarySI),
			}},
		}}},
	})
	if err != nil {
		return fmt.Errorf("encode a resize: %w", err)
	}
	target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: pod.Name}}
	return r.client.SubResource("resize").Patch(ctx, target, client.RawPatch(types.StrategicMergePatchType, body))
}
