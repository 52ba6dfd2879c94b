// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package tenancy

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// While an aggregated API has no server no namespace ends. An installation that has such a one is
// removed in the documented order (the clean-up of apply), and then namespaces end.
func TestRemovalWhileTheAggregatedAPIHasNoServer(t *testing.T) {
	create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant}}) // deleted after the installation
	i := installation{namespace: "managedworkload-system", components: []string{"objects"}}
	i.apply(t)
	_, err := stack.Kubectl(t.Context(), "wait", "--for=condition=Available=False", "--timeout=60s", "apiservice/"+apiService)
	must(t, err)
}
