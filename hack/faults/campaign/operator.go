// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"context"
	"regexp"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/localstack"
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
	lease := &coordinationv1.Lease{}
	key := client.ObjectKey{Namespace: localstack.SystemNamespace, Name: v1alpha1.LeaseNamePrefix + c.stack.NodeName()}
	if err := c.kube.Get(ctx, key, lease); err != nil {
		return err
	}
	held := lease.Annotations[v1alpha1.AnnotationOrphansHeld]
	token := confirmation.FindStringSubmatch(held)
	if token == nil || lease.Annotations[v1alpha1.AnnotationConfirmOrphans] == token[1] {
		return nil
	}
	c.progress("confirming orphans: %s", held)
	base := lease.DeepCopy()
	lease.Annotations[v1alpha1.AnnotationConfirmOrphans] = token[1]
	return c.kube.Patch(ctx, lease, client.MergeFrom(base))
}
