// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/controllers/quota"
)

// countedAs is the resource by which a quota limits how many NodeWorkloads there are.
const countedAs = "count/nodeworkloads.managedworkload.dev"

// Quotas are those of a namespace by which the manager goes: none where an administrator lets
// it ignore them. They are not to be changed.
func (j *Judge) Quotas(ctx context.Context, namespace string) ([]*corev1.ResourceQuota, error) {
	if j.options.IgnoreQuotas {
		return nil, nil
	}
	list := &corev1.ResourceQuotaList{}
	if err := j.client.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the quotas of namespace %q: %w", namespace, err)
	}
	quotas := make([]*corev1.ResourceQuota, 0, len(list.Items))
	for i := range list.Items {
		quotas = append(quotas, &list.Items[i])
	}
	return quotas, nil
}

// uncounted says that a quota of the Pod's namespace would limit the Pod, and that none
// counts NodeWorkloads: no quota says what they use, so that an administrator has to know of them.
func (j *Judge) uncounted(ctx context.Context, pod *corev1.Pod) (string, error) {
	quotas, err := j.Quotas(ctx, pod.Namespace)
	if err != nil {
		return "", err
	}
	limiting, usage := "", quota.UsageOf(&pod.Spec)
	for _, q := range quotas {
		if _, counted := q.Spec.Hard[countedAs]; counted {
			return "", nil
		}
		if quota.LimitsPods(q) && quota.Matches(q, usage) {
			limiting = q.Name
		}
	}
	if limiting == "" {
		return "", nil
	}
	return fmt.Sprintf("ResourceQuota %s limits the Pods of this namespace, and its status does not show what runs on the nodes; limit that too: "+
		"kubectl create quota nodeworkloads -n %s --hard=%s=NUMBER", limiting, pod.Namespace, countedAs), nil
}
