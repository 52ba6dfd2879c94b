// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/fleet"
)

// say writes the conditions of a node's NodeWorkloads that are to say something else.
func (r *Reconciler) say(ctx context.Context, node string, shares []*fleet.Share, d decision, now time.Time, next *earliest) error {
	known := r.memos.of(node)
	var errs []error
	for _, s := range shares {
		said, decided := d.said[s.UID]
		if !decided || s.Reserved == nil && said == nil || s.Reserved != nil && said != nil && *s.Reserved == *said {
			continue
		}
		if sameButWords(s.Reserved, said) && now.Sub(known.said) < r.timing.reword {
			next.in(known.said.Add(r.timing.reword).Sub(now))
			continue
		}
		if !accept(r.writes, next) {
			break
		}
		errs = append(errs, r.write(ctx, node, s, said, now))
	}
	return errors.Join(errs...)
}

// write makes the condition of one NodeWorkload say something else.
func (r *Reconciler) write(ctx context.Context, node string, s *fleet.Share, said *fleet.Said, now time.Time) error {
	if _, err := s.SayReserved(said, metav1.NewTime(now)).ApplyStatus(ctx, r.client); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil
		}
		return fmt.Errorf("write the condition %s: %w", v1alpha1.ConditionReserved, err)
	}
	r.memos.change(node, func(m *memo) { m.said = now })
	return nil
}

// sameButWords reports whether two of them, either of which may be nil, differ in their messages
// only: those of the kubelet change with every Pod of the node.
func sameButWords(a, b *fleet.Said) bool {
	return a != nil && b != nil && a.Status == b.Status && a.Reason == b.Reason
}
