// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

func TestSetDefaultsPullPolicy(t *testing.T) {
	tests := map[string]corev1.PullPolicy{
		"a":                         corev1.PullAlways,
		"a:latest":                  corev1.PullAlways,
		"a:v1":                      corev1.PullIfNotPresent,
		"host:5000/a":               corev1.PullAlways,
		"host:5000/a:v1":            corev1.PullIfNotPresent,
		"a@sha256:0123":             corev1.PullIfNotPresent,
		"a:latest@sha256:0123":      corev1.PullAlways,
		"host:5000/a:v1@sha256:012": corev1.PullIfNotPresent,
	}
	for image, want := range tests {
		tmpl := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: image}}, Volumes: []corev1.Volume{
			{VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: image}}},
		}}}
		SetDefaults(tmpl)
		if got := tmpl.Spec.Containers[0].ImagePullPolicy; got != want {
			t.Errorf("image %q: pull policy %s, want %s", image, got, want)
		}
		if got := tmpl.Spec.Volumes[0].Image.PullPolicy; got != want {
			t.Errorf("volume of image %q: pull policy %s, want %s", image, got, want)
		}
	}
}

func TestSetDefaultsIsIdempotentAndKeepsWhatIsSet(t *testing.T) {
	tmpl := parse(t, `{spec: {terminationGracePeriodSeconds: 0, restartPolicy: Never, hostNetwork: true, containers: [{name: a, image: "x:1",
  imagePullPolicy: Never, ports: [{containerPort: 80}], resources: {limits: {cpu: 1}}, livenessProbe: {httpGet: {port: 80}, periodSeconds: 3}}]}}`)
	SetDefaults(tmpl)
	once := tmpl.DeepCopy()
	SetDefaults(tmpl)
	if diff := cmp.Diff(once, tmpl); diff != "" {
		t.Errorf("a second run changes (-once +twice):\n%s", diff)
	}
	c := tmpl.Spec.Containers[0]
	if *tmpl.Spec.TerminationGracePeriodSeconds != 0 || tmpl.Spec.RestartPolicy != corev1.RestartPolicyNever || c.ImagePullPolicy != corev1.PullNever || c.LivenessProbe.PeriodSeconds != 3 {
		t.Errorf("a value that was set is gone: %+v", tmpl.Spec)
	}
	if c.Ports[0].HostPort != 80 || c.LivenessProbe.HTTPGet.Path != "/" || c.LivenessProbe.FailureThreshold != 3 {
		t.Errorf("a default is missing: %+v", c)
	}
	if cpu := c.Resources.Requests[corev1.ResourceCPU]; cpu.String() != "1" {
		t.Errorf("cpu request %s, want the limit", cpu.String())
	}
}

func TestPod(t *testing.T) {
	now := metav1.NewTime(time.Unix(1000, 0))
	nw := &Workload{
		NodeWorkload: v1alpha1.NodeWorkload{
			ObjectMeta: metav1.ObjectMeta{Name: "w-n", Namespace: "ns", UID: "u", DeletionGracePeriodSeconds: ptr.To[int64](0)},
			Spec:       v1alpha1.NodeWorkloadSpec{NodeName: "n", DeletionGracePeriodSeconds: ptr.To[int64](7)},
		},
		Template: &corev1.PodTemplateSpec{},
	}
	if pod := Pod(nw); pod.DeletionTimestamp != nil || pod.DeletionGracePeriodSeconds != nil {
		t.Errorf("a pod that is not being deleted has a deletion: %v, %v", pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds)
	}
	nw.DeletionTimestamp = &now
	pod := Pod(nw)
	if pod.DeletionTimestamp == nil || ptr.Deref(pod.DeletionGracePeriodSeconds, -1) != 7 {
		t.Errorf("deletion grace %v, want 7 from spec", pod.DeletionGracePeriodSeconds)
	}
	nw.Spec.DeletionGracePeriodSeconds = nil
	if pod := Pod(nw); pod.DeletionGracePeriodSeconds != nil {
		t.Errorf("deletion grace %d was taken from metadata", *pod.DeletionGracePeriodSeconds)
	}
	if pod.Name != "w-n" || pod.Namespace != "ns" || pod.UID != "u" || pod.Spec.NodeName != "n" {
		t.Errorf("identity %s/%s %s on %s", pod.Namespace, pod.Name, pod.UID, pod.Spec.NodeName)
	}
	if nw.Template.Spec.RestartPolicy != "" {
		t.Error("the NodeWorkload itself was defaulted")
	}
}

func TestHash(t *testing.T) {
	a := parse(t, `{metadata: {labels: {x: "1", y: "2"}}, spec: {containers: [{name: a, image: x}]}}`)
	b := a.DeepCopy()
	b.Name = "ignored"
	if Hash(a) != Hash(b) || Hash(a) == "" {
		t.Errorf("hashes %q and %q, want the same", Hash(a), Hash(b))
	}
	b.Spec.Containers[0].LivenessProbe = &corev1.Probe{PeriodSeconds: 4}
	if Hash(a) == Hash(b) {
		t.Error("a changed probe does not change the hash")
	}
}
