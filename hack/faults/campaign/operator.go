// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"context"
	"regexp"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// afterRestore is how long after a restoration an administrator believes that
// workloads are gone because of it.
const afterRestore = 5 * time.Minute

var confirmation = regexp.MustCompile(regexp.QuoteMeta(v1alpha1.AnnotationConfirmOrphans) + `=([0-9a-f]+)`)

// confirmOrphans is the administrator who has restored etcd and confirms that the
// containers of what it lacks may end. Without a restoration nothing is confirmed:
// then no orphans are to be expected.
func (c *campaign) confirmOrphans(ctx context.Context) {
	for pause(ctx, nil, time.Second) {
		if c.restoredLately() {
			_ = c.confirm(ctx) // tried again
		}
	}
}

func (c *campaign) restoredLately() bool {
	for _, f := range c.made.list() {
		if !f.Backup.IsZero() && time.Since(f.To) < afterRestore {
			return true
		}
	}
	return false
}

func (c *campaign) confirm(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	node := &corev1.Node{}
	if err := c.kube.Get(ctx, client.ObjectKey{Name: c.stack.NodeName()}, node); err != nil {
		return err
	}
	for _, condition := range node.Status.Conditions {
		token := confirmation.FindStringSubmatch(condition.Message)
		if condition.Status != corev1.ConditionTrue || token == nil || node.Annotations[v1alpha1.AnnotationConfirmOrphans] == token[1] {
			continue
		}
		c.progress("confirming orphans: %s", condition.Message)
		base := node.DeepCopy()
		if node.Annotations == nil {
			node.Annotations = map[string]string{}
		}
		node.Annotations[v1alpha1.AnnotationConfirmOrphans] = token[1]
		return c.kube.Patch(ctx, node, client.MergeFrom(base))
	}
	return nil
}
