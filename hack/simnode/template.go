// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package simnode

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// BadImage cannot be pulled by any simulated node.
const BadImage = "bench.example/app:cannot-be-pulled"

// Template is one of about so many bytes in JSON. Its container has what those of an agent
// usually have: resources, probes, a volume, a hook; environment variables fill the rest.
func Template(image string, bytes int) corev1.PodTemplateSpec {
	hook := corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"/app", "drain"}}}
	ready := corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/app", "ready"}}}
	list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi")}
	t := corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		Containers: []corev1.Container{{
			Name: "app", Image: image, ImagePullPolicy: corev1.PullIfNotPresent,
			Resources:      corev1.ResourceRequirements{Limits: list, Requests: list},
			ReadinessProbe: &corev1.Probe{ProbeHandler: ready},
			Lifecycle:      &corev1.Lifecycle{PreStop: &hook},
			VolumeMounts:   []corev1.VolumeMount{{Name: "work", MountPath: "/work"}},
		}},
		Volumes: []corev1.Volume{{Name: "work", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
	}}
	const each = 128
	app := &t.Spec.Containers[0]
	for i := range max(0, bytes-size(t)) / each {
		env := corev1.EnvVar{Name: fmt.Sprintf("SETTING_%d", i)}
		env.Value = strings.Repeat("x", each-size(env)-len(`,"value":""`))
		app.Env = append(app.Env, env)
	}
	return t
}

// size is the length of a value in JSON.
func size(v any) int {
	data, err := json.Marshal(v)
	if err != nil {
		return 0 // templates consist of strings, numbers and maps
	}
	return len(data)
}
