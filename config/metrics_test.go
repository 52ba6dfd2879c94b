// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// podMonitor is what the Prometheus operator reads of a PodMonitor.
type podMonitor struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Metadata   map[string]any `json:"metadata"`
	Spec       struct {
		Selector  map[string]any `json:"selector"`
		Endpoints []struct {
			Port            string         `json:"port"`
			Path            string         `json:"path"`
			Scheme          string         `json:"scheme"`
			HonorLabels     bool           `json:"honorLabels"`
			HonorTimestamps bool           `json:"honorTimestamps"`
			TLS             map[string]any `json:"tlsConfig"`
			Relabelings     []any          `json:"relabelings"`
			Authorization   struct {
				Credentials struct {
					Name string `json:"name"`
					Key  string `json:"key"`
				} `json:"credentials"`
			} `json:"authorization"`
		} `json:"podMetricsEndpoints"`
	} `json:"spec"`
}

// The PodMonitor shows the token of the account that may read the metrics, whatever kustomize renames.
func TestScraper(t *testing.T) {
	for name, edit := range map[string]string{"as it is": "", "renamed": "namePrefix: team-a-\n"} {
		t.Run(name, func(t *testing.T) {
			objects := kustomization{base: "default", components: []string{"prometheus"}, edit: edit}.render(t)
			secret := only[corev1.Secret](t, objects, "Secret", "metrics")
			binding := only[rbacv1.ClusterRoleBinding](t, objects, "ClusterRoleBinding", "metrics-reader")
			role := only[rbacv1.ClusterRole](t, objects, "ClusterRole", "metrics-reader")
			account := binding.Subjects[0].Name
			if secret.Annotations[corev1.ServiceAccountNameKey] != account || binding.RoleRef.Name != role.Name {
				t.Errorf("the token is that of %s, the right that of %s by %s", secret.Annotations[corev1.ServiceAccountNameKey], account, binding.RoleRef.Name)
			}
			paths := map[string]bool{}
			for _, endpoint := range only[podMonitor](t, objects, "PodMonitor", "").Spec.Endpoints {
				paths[endpoint.Path] = true
				if c := endpoint.Authorization.Credentials; endpoint.Scheme != "https" || c.Name != secret.Name || c.Key != corev1.ServiceAccountTokenKey {
					t.Errorf("%s is scraped by %s with %+v, the Secret is %s", endpoint.Path, endpoint.Scheme, c, secret.Name)
				}
			}
			if !paths[""] || !paths["/metrics/resource"] {
				t.Errorf("scraped are %v", paths)
			}
		})
	}
}
