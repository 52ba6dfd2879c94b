// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
)

// drawDefaulted draws a template whose fields that have a default are unset, have it, or
// have another value.
func drawDefaulted(t *rapid.T) *corev1.PodTemplateSpec {
	number := func(what string, values ...int32) int32 { return rapid.SampledFrom(values).Draw(t, what) }
	text := func(what string, values ...string) string { return rapid.SampledFrom(values).Draw(t, what) }
	quantities := func(what string) corev1.ResourceList {
		if q := text(what, "", "1", "1000m", "2"); q != "" {
			return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(q)}
		}
		return nil
	}
	get := func(what string) *corev1.HTTPGetAction {
		return &corev1.HTTPGetAction{Path: text(what+" path", "", "/", "/x"), Scheme: corev1.URIScheme(text(what+" scheme", "", "HTTP", "HTTPS")), Port: intstr.FromInt32(1)}
	}
	spec := corev1.PodSpec{
		DNSPolicy: corev1.DNSPolicy(text("dns", "", "ClusterFirst", "Default")), RestartPolicy: corev1.RestartPolicy(text("restart", "", "Always", "Never")),
		SchedulerName: text("scheduler", "", "default-scheduler", "other"), HostNetwork: rapid.Bool().Draw(t, "host network"),
		TerminationGracePeriodSeconds: rapid.SampledFrom([]*int64{nil, ptr.To[int64](30), ptr.To[int64](0)}).Draw(t, "grace"),
		EnableServiceLinks:            rapid.SampledFrom([]*bool{nil, ptr.To(true), ptr.To(false)}).Draw(t, "links"),
		SecurityContext:               rapid.SampledFrom([]*corev1.PodSecurityContext{nil, {}, {RunAsNonRoot: ptr.To(true)}}).Draw(t, "security"),
		Volumes: []corev1.Volume{
			{Name: "a"}, {Name: "b", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: "c", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/", Type: rapid.SampledFrom([]*corev1.HostPathType{nil, ptr.To(corev1.HostPathUnset), ptr.To(corev1.HostPathFile)}).Draw(t, "type")}}},
			{Name: "d", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{
				Reference: text("volume's image", "a", "a:v1"), PullPolicy: corev1.PullPolicy(text("volume's pull", "", "Always", "IfNotPresent")),
			}}},
		},
	}
	c := corev1.Container{
		Name: "c", Image: text("image", "a", "a:v1", "a:latest"), ImagePullPolicy: corev1.PullPolicy(text("pull", "", "Always", "IfNotPresent", "Never")),
		TerminationMessagePath: text("message", "", "/dev/termination-log", "/x"), TerminationMessagePolicy: corev1.TerminationMessagePolicy(text("policy", "", "File", "FallbackToLogsOnError")),
		Ports:     []corev1.ContainerPort{{ContainerPort: 80, HostPort: number("host port", 0, 80, 81), Protocol: corev1.Protocol(text("protocol", "", "TCP", "UDP"))}},
		Env:       []corev1.EnvVar{{Name: "E", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: text("version", "", "v1"), FieldPath: "metadata.name"}}}},
		Resources: corev1.ResourceRequirements{Limits: quantities("limits"), Requests: quantities("requests")},
		LivenessProbe: &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{HTTPGet: get("probe")}, TimeoutSeconds: number("timeout", 0, 1, 2), PeriodSeconds: number("period", 0, 10, 11),
			SuccessThreshold: number("success", 0, 1, 2), FailureThreshold: number("failure", 0, 3, 4),
		},
		ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Service: rapid.SampledFrom([]*string{nil, ptr.To(""), ptr.To("s")}).Draw(t, "service")}}},
		Lifecycle:      &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: get("hook")}},
	}
	spec.InitContainers, spec.Containers = []corev1.Container{c}, []corev1.Container{*c.DeepCopy()}
	return &corev1.PodTemplateSpec{Spec: spec}
}

// Defaults that are removed come back, and those of a template that had none are gone.
func TestRemoveDefaults(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawDefaulted(t)
		SetDefaults(want)
		got := want.DeepCopy()
		RemoveDefaults(got)
		SetDefaults(got)
		if Hash(got) != Hash(want) {
			t.Fatalf("another template (-want +got):\n%s", cmp.Diff(want, got))
		}
	})
	plain := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		HostNetwork: true,
		Containers: []corev1.Container{{
			Name: "c", Image: "a:v1", Ports: []corev1.ContainerPort{{ContainerPort: 80}}, LivenessProbe: &corev1.Probe{},
			Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
		}},
		Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}},
	}}
	got := plain.DeepCopy()
	SetDefaults(got)
	RemoveDefaults(got)
	if diff := cmp.Diff(plain, got); diff != "" {
		t.Errorf("defaults are left (-want +got):\n%s", diff)
	}
}
