// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A probe on a named port that its container lacks is refused, by path and with
// what to do: the probe would never run.
func TestCheckProbePorts(t *testing.T) {
	const todo = ": the container has no port of that name; add it to the container's ports or use a number"
	http := func(port string) *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.Parse(port)}}}
	}
	tcp := func(port string) *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString(port)}}}
	}
	ports := []corev1.ContainerPort{{Name: "web", ContainerPort: 8080}}
	tests := map[string]struct {
		spec corev1.PodSpec
		want []string
	}{
		"a port that is there": {spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i", Ports: ports, LivenessProbe: http("web"), ReadinessProbe: tcp("web")}}}},
		"a number":             {spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i", StartupProbe: http("8080")}}}},
		"a number in quotes":   {spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i", LivenessProbe: tcp("8080")}}}},
		"no port of that name": {
			spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i", Ports: ports, LivenessProbe: http("http"), ReadinessProbe: tcp("http"), StartupProbe: http("http")}}},
			want: []string{
				`spec.template.spec.containers[0].livenessProbe.httpGet.port: Invalid value: "http"` + todo,
				`spec.template.spec.containers[0].readinessProbe.tcpSocket.port: Invalid value: "http"` + todo,
				`spec.template.spec.containers[0].startupProbe.httpGet.port: Invalid value: "http"` + todo,
			},
		},
		"another container's port": {
			spec: corev1.PodSpec{
				Containers:     []corev1.Container{{Name: "c", Image: "i", Ports: ports}, {Name: "d", Image: "i", ReadinessProbe: http("web")}},
				InitContainers: []corev1.Container{{Name: "s", Image: "i", RestartPolicy: new(corev1.ContainerRestartPolicyAlways), StartupProbe: tcp("web")}},
			},
			want: []string{
				`spec.template.spec.initContainers[0].startupProbe.tcpSocket.port: Invalid value: "web"` + todo,
				`spec.template.spec.containers[1].readinessProbe.httpGet.port: Invalid value: "web"` + todo,
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			refused, _ := Check(&corev1.PodTemplateSpec{Spec: tt.spec}, field.NewPath("spec", "template"))
			var got []string
			for _, e := range refused {
				got = append(got, e.Error())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("refused (-want +got)\n%s", diff)
			}
		})
	}
}
