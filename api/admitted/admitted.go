// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package admitted

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/template"
)

// Question is which Pod is asked about.
type Question struct {
	Namespace, Name string
	// NoTokens: nothing gives nodes service account tokens and objects. A template that is
	// silent about its token gets none.
	NoTokens bool
}

// Pod is a template as the Pod that the API server is asked to admit.
func (q Question) Pod(t *corev1.PodTemplateSpec) *corev1.Pod {
	t = t.DeepCopy()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: q.Namespace, Name: q.Name, Labels: t.Labels, Annotations: t.Annotations},
		Spec:       t.Spec,
	}
	if q.NoTokens && pod.Spec.AutomountServiceAccountToken == nil {
		pod.Spec.AutomountServiceAccountToken = new(false)
	}
	for _, toleration := range placement.DaemonTolerations(&t.Spec) {
		if !slices.Contains(pod.Spec.Tolerations, toleration) {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, toleration)
		}
	}
	return pod
}

// Template is what admission made of a template: the labels, annotations and spec of the Pod
// that it let pass, with the number of its priority class and what its ServiceAccount gives, and
// without what was added for the question. asked is the template with its defaults.
func (q Question) Template(pod *corev1.Pod, asked *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	t := asked.DeepCopy()
	t.Spec = *pod.Spec.DeepCopy()
	t.ObjectMeta = metav1.ObjectMeta{Labels: sameIfEmpty(pod.Labels, asked.Labels), Annotations: sameIfEmpty(pod.Annotations, asked.Annotations)}
	spec, before := &t.Spec, &asked.Spec
	spec.PriorityClassName, spec.PreemptionPolicy = before.PriorityClassName, before.PreemptionPolicy
	if spec.Priority == nil || *spec.Priority == 0 { // as every Pod of no class
		spec.Priority = before.Priority
	}
	spec.NodeName = before.NodeName
	given := nameTokenVolume(spec, before)
	if spec.ServiceAccountName == "" { // no admission of service accounts: a Pod gets no token either
		KeepAccount(t, asked)
	} else if spec.AutomountServiceAccountToken == nil {
		spec.AutomountServiceAccountToken = new(given || bringsToken(spec))
	}
	if q.NoTokens || len(spec.ImagePullSecrets) == 0 {
		spec.ImagePullSecrets = before.ImagePullSecrets
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
