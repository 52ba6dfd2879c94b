// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Hash identifies a template: its labels, annotations and spec. Templates that
// differ only in defaults have different hashes, so default it first.
func Hash(t *corev1.PodTemplateSpec) string {
	identity := struct {
		Labels      map[string]string `json:"labels,omitempty"`
		Annotations map[string]string `json:"annotations,omitempty"`
		Spec        corev1.PodSpec    `json:"spec"`
	}{t.Labels, t.Annotations, t.Spec}
	// A PodSpec consists of strings, numbers, maps and quantities only: encoding
	// it cannot fail, and an empty hash would match no other.
	data, err := json.Marshal(identity)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// Pod returns the desired Pod of a Workload: its name, namespace and UID,
// the template's labels and annotations, and the template's spec with defaults.
// When the NodeWorkload is being deleted, so is the Pod; its
// deletionGracePeriodSeconds is that of the NodeWorkload's spec, in seconds, or
// nil for the template's own. (The API server sets a custom resource's
// metadata.deletionGracePeriodSeconds to 0, so that one is never read.)
func Pod(w *Workload) *corev1.Pod {
	t := w.Template.DeepCopy()
	SetDefaults(t)
	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name:              w.Name,
			Namespace:         w.Namespace,
			UID:               w.UID,
			Generation:        w.Generation,
			CreationTimestamp: w.CreationTimestamp,
			Labels:            t.Labels,
			Annotations:       t.Annotations,
		},
		Spec: t.Spec,
	}
	pod.Spec.NodeName = w.Spec.NodeName
	if w.DeletionTimestamp != nil {
		pod.DeletionTimestamp = w.DeletionTimestamp.DeepCopy()
		if s := w.Spec.DeletionGracePeriodSeconds; s != nil {
			seconds := *s
			pod.DeletionGracePeriodSeconds = &seconds
		}
	}
	return pod
}
