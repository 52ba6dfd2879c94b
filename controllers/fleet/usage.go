// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/quota"
)

// takeEarlier counts the templates before it of which something may run, as far as this process knew them:
// a change may wait. By the status alone a node could claim what it likes, at the cost of the others.
func (s *Share) takeEarlier(nw *v1alpha1.NodeWorkload, before *Share) {
	if before == nil || before.UID != s.UID || s.Current() || !hasRun(&nw.Status) {
		return
	}
	s.Earlier = s.earlierThan(before)
	s.Amount = s.Amount.AtLeast(before.Amount)
	s.Usage = s.Usage.With(before.Usage)
}

// hasRun reports whether something of a NodeWorkload may run.
func hasRun(status *v1alpha1.NodeWorkloadStatus) bool {
	return status.TemplateHash != "" || runs(status) || status.Phase != "" && status.Phase != corev1.PodPending
}

// used is what a Share, which may be nil, uses of quotas: what has ended for good uses nothing
// once no container runs.
func (s *Share) used() *quota.Usage {
	if s == nil || s.Terminal() && !s.Runs {
		return nil
	}
	return s.Usage
}

// Usages implements quota.NodeWorkloads.
func (x *Index) Usages(namespace string) map[types.NamespacedName]*quota.Usage {
	x.mu.RLock()
	defer x.mu.RUnlock()
	found := make(map[types.NamespacedName]*quota.Usage, len(x.byNamespace[namespace]))
	for key, s := range x.byNamespace[namespace] {
		if used := s.used(); used != nil {
			found[key] = used
		}
	}
	return found
}

// FreesQuota reports whether a NodeWorkload may use less of quotas than before.
func (c Change) FreesQuota() bool {
	was := c.Old.used()
	return was != nil && was != c.New.used()
}
