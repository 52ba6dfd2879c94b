// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package admitted

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/template"
)

func userTemplate(edits ...func(*corev1.PodTemplateSpec)) *corev1.PodTemplateSpec {
	t := &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}},
		Spec: corev1.PodSpec{
			Containers:  []corev1.Container{{Name: "c", Image: "image:1"}},
			Tolerations: []corev1.Toleration{{Key: "mine", Operator: corev1.TolerationOpExists}},
		},
	}
	for _, edit := range edits {
		edit(t)
	}
	template.SetDefaults(t)
	return t
}

// What runs is what admission made of the template, without what every Pod gets and
// without what was added for the question.
func TestAdmittedTemplate(t *testing.T) {
	everyPod := func(p *corev1.Pod) {
		p.Name, p.UID, p.CreationTimestamp = "w123", "u", metav1.Now()
		p.Spec.Priority, p.Spec.PreemptionPolicy = new(int32(0)), new(corev1.PreemptLowerPriority)
	}
	tests := map[string]struct {
		user  func(*corev1.PodTemplateSpec)
		admit func(*corev1.Pod)
		want  func(*corev1.PodTemplateSpec)
	}{
		"nothing changed": {},
		"metadata that has no effect": {
			user: func(t *corev1.PodTemplateSpec) {
				t.Name, t.UID, t.ResourceVersion, t.Finalizers, t.CreationTimestamp = "n", "1", "2", []string{"a/b"}, metav1.Now()
			},
			want: func(t *corev1.PodTemplateSpec) { t.ObjectMeta = metav1.ObjectMeta{Labels: t.Labels} },
		},
		"no labels": {
			user: func(t *corev1.PodTemplateSpec) { t.Labels = nil }, admit: func(p *corev1.Pod) { p.Labels = map[string]string{} },
		},
		"a toleration of the user's that a DaemonSet's Pod has too": {
			user: func(t *corev1.PodTemplateSpec) { t.Spec.Tolerations = placement.DaemonTolerations(&t.Spec)[:1] },
		},
		"fields whose feature gates are off": {
			user: func(t *corev1.PodTemplateSpec) {
				t.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{StopSignal: new(corev1.SIGUSR1)}
				t.Spec.Containers[0].RestartPolicy = new(corev1.ContainerRestartPolicyNever)
				t.Spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestart}}
			},
			admit: func(p *corev1.Pod) {
				c := &p.Spec.Containers[0]
				c.Lifecycle, c.RestartPolicy, c.RestartPolicyRules = nil, nil, nil
			},
		},
		"the number of its priority class, which is that of a Pod": {
			user:  func(t *corev1.PodTemplateSpec) { t.Spec.PriorityClassName = "important" },
			admit: func(p *corev1.Pod) { p.Spec.Priority = new(int32(1000)) },
			want:  func(t *corev1.PodTemplateSpec) { t.Spec.Priority = new(int32(1000)) },
		},
		"the number of the class that Pods without one get": {
			admit: func(p *corev1.Pod) { p.Spec.PriorityClassName, p.Spec.Priority = "of-the-cluster", new(int32(-10)) },
			want:  func(t *corev1.PodTemplateSpec) { t.Spec.Priority = new(int32(-10)) },
		},
		"a number of 0 that the user gave": {
			user: func(t *corev1.PodTemplateSpec) { t.Spec.Priority = new(int32(0)) },
		},
		"limits, a node selector and a pull policy": {
			admit: func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}
				p.Spec.Containers[0].ImagePullPolicy = corev1.PullAlways
				p.Spec.NodeSelector = map[string]string{"pool": "tenants"}
				p.Annotations = map[string]string{"injected": "yes"}
			},
			want: func(t *corev1.PodTemplateSpec) {
				limits := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}
				t.Spec.Containers[0].Resources = corev1.ResourceRequirements{Limits: limits, Requests: limits.DeepCopy()}
				t.Spec.Containers[0].ImagePullPolicy = corev1.PullAlways
				t.Spec.NodeSelector = map[string]string{"pool": "tenants"}
				t.Annotations = map[string]string{"injected": "yes"}
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			edit := tt.user
			if edit == nil {
				edit = func(*corev1.PodTemplateSpec) {}
			}
			asked, want := userTemplate(edit), userTemplate(edit)
			pod := Question{Namespace: "ns", Name: "w123"}.Pod(asked)
			everyPod(pod)
			if tt.admit != nil {
				tt.admit(pod)
			}
			if tt.want != nil {
				tt.want(want)
			}
			got := Question{Namespace: "ns", Name: "w123"}.Template(pod, asked)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if template.Hash(want) != template.Hash(got) {
				t.Error("the hash differs though nothing else does")
			}
		})
	}
}
