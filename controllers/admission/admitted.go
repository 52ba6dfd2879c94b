// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"encoding/json"
	"fmt"
	"slices"

	jsonpatch "github.com/evanphx/json-patch/v5"
	differ "gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// podOf is a template as the Pod that the API server is asked to admit.
func podOf(mw *v1alpha1.ManagedWorkload, t *corev1.PodTemplateSpec, name string) *corev1.Pod {
	t = t.DeepCopy()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: mw.Namespace, Name: name, Labels: t.Labels, Annotations: t.Annotations},
		Spec:       t.Spec,
	}
	pod.Spec.AutomountServiceAccountToken = new(false)
	for _, toleration := range placement.DaemonTolerations(&t.Spec) {
		if !slices.Contains(pod.Spec.Tolerations, toleration) {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, toleration)
		}
	}
	return pod
}

// admittedTemplate is what admission made of a template: the labels, annotations and spec
// of the Pod that it let pass, without what every Pod gets and what was added for the
// question. asked is the template with its defaults.
func admittedTemplate(pod *corev1.Pod, asked *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	t := asked.DeepCopy()
	t.Spec = *pod.Spec.DeepCopy()
	t.Labels, t.Annotations = sameIfEmpty(pod.Labels, asked.Labels), sameIfEmpty(pod.Annotations, asked.Annotations)
	spec, before := &t.Spec, &asked.Spec
	spec.AutomountServiceAccountToken = before.AutomountServiceAccountToken
	spec.ServiceAccountName, spec.DeprecatedServiceAccount = before.ServiceAccountName, before.DeprecatedServiceAccount
	spec.PriorityClassName, spec.Priority, spec.PreemptionPolicy = before.PriorityClassName, before.Priority, before.PreemptionPolicy
	spec.NodeName = before.NodeName
	if len(before.ImagePullSecrets) == 0 {
		spec.ImagePullSecrets = nil // those of the service account, which a Pod would use
	}
	added := placement.DaemonTolerations(before)
	spec.Tolerations = slices.DeleteFunc(spec.Tolerations, func(t corev1.Toleration) bool {
		return slices.Contains(added, t) && !slices.Contains(before.Tolerations, t)
	})
	if len(spec.Tolerations) == 0 {
		spec.Tolerations = before.Tolerations
	}
	keepGated(spec.InitContainers, before.InitContainers)
	keepGated(spec.Containers, before.Containers)
	template.SetDefaults(t)
	return t
}

// keepGated puts back fields that an API server takes from a Pod while their feature gate
// is off: they are the shim's matter, and give no rights. (kubernetes
// pkg/api/pod/util.go:dropDisabledFields)
func keepGated(admitted, asked []corev1.Container) {
	for i := range admitted {
		c := &admitted[i]
		at := slices.IndexFunc(asked, func(a corev1.Container) bool { return a.Name == c.Name })
		if at < 0 {
			continue
		}
		if before := asked[at].Lifecycle; before != nil && before.StopSignal != nil {
			if c.Lifecycle == nil {
				c.Lifecycle = &corev1.Lifecycle{}
			}
			if c.Lifecycle.StopSignal == nil {
				c.Lifecycle.StopSignal = before.StopSignal
			}
		}
		if len(c.RestartPolicyRules) == 0 && len(asked[at].RestartPolicyRules) > 0 {
			c.RestartPolicyRules = asked[at].RestartPolicyRules
			if c.RestartPolicy == nil {
				c.RestartPolicy = asked[at].RestartPolicy
			}
		}
	}
}

// sameIfEmpty keeps the difference between no map and an empty one, which means nothing.
func sameIfEmpty(now, before map[string]string) map[string]string {
	if len(now) == 0 && len(before) == 0 {
		return before
	}
	return now
}

// Patch is the JSON Patch that makes the admitted template out of the user's; "" when
// they are the same.
func Patch(user, admitted *corev1.PodTemplateSpec) (string, error) {
	before, err := json.Marshal(user)
	if err != nil {
		return "", fmt.Errorf("encode the user's template: %w", err)
	}
	after, err := json.Marshal(admitted)
	if err != nil {
		return "", fmt.Errorf("encode the admitted template: %w", err)
	}
	operations, err := differ.CreatePatch(before, after)
	if err != nil {
		return "", fmt.Errorf("compare the templates: %w", err)
	}
	if len(operations) == 0 {
		return "", nil
	}
	patch, err := json.Marshal(operations)
	if err != nil {
		return "", fmt.Errorf("encode what admission changed: %w", err)
	}
	return string(patch), nil
}

// Admitted is the admitted template of a revision.
func Admitted(revision *v1alpha1.ManagedWorkloadRevision) (*corev1.PodTemplateSpec, error) {
	if revision.Spec.AdmittedPatch == "" {
		return revision.Spec.Template.DeepCopy(), nil
	}
	before, err := json.Marshal(&revision.Spec.Template)
	if err != nil {
		return nil, fmt.Errorf("encode the template of revision %q: %w", revision.Name, err)
	}
	patch, err := jsonpatch.DecodePatch([]byte(revision.Spec.AdmittedPatch))
	if err != nil {
		return nil, fmt.Errorf("read the patch of revision %q: %w", revision.Name, err)
	}
	after, err := patch.Apply(before)
	if err != nil {
		return nil, fmt.Errorf("apply the patch of revision %q: %w", revision.Name, err)
	}
	admitted := &corev1.PodTemplateSpec{}
	if err := json.Unmarshal(after, admitted); err != nil {
		return nil, fmt.Errorf("decode the admitted template of revision %q: %w", revision.Name, err)
	}
	return admitted, nil
}
