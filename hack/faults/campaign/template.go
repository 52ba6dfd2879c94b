// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/faults/history"
	"github.com/managedworkload/managedworkload/hack/localstack"
)

const (
	annotationIncarnation = "faults/incarnation"
	annotationRevision    = "faults/revision"
	heartbeat             = 200 * time.Millisecond
)

// incarnation is one life of a workload's name, from its creation to its end.
type incarnation struct {
	number   int
	grace    int64
	object   *v1alpha1.ManagedWorkload
	probed   string // a container whose liveness probe can be made to fail, "" if none
	failFile string
}

// newIncarnation makes a workload by chance.
func newIncarnation(dice *rand.Rand, workload, dir string, number int) *incarnation {
	in := &incarnation{number: number, grace: int64(2 + dice.IntN(6))}
	spec := corev1.PodSpec{
		TerminationGracePeriodSeconds: ptr.To(in.grace),
		HostNetwork:                   dice.IntN(2) == 0,
		Volumes: []corev1.Volume{{Name: "dir", VolumeSource: corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: dir},
		}}},
	}
	if dice.IntN(4) == 0 {
		sidecar := in.container(dice, "sidecar")
		sidecar.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		spec.InitContainers = append(spec.InitContainers, sidecar)
	}
	spec.Containers = append(spec.Containers, in.container(dice, "a"))
	if dice.IntN(3) == 0 {
		spec.Containers = append(spec.Containers, in.container(dice, "b"))
	}
	if !spec.HostNetwork && dice.IntN(2) == 0 {
		in.probe(&spec.Containers[0], dir)
	}
	in.object = &v1alpha1.ManagedWorkload{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: workload,
			Annotations: map[string]string{annotationIncarnation: strconv.Itoa(number)},
		},
		Spec: v1alpha1.ManagedWorkloadSpec{
			RestartBackoff: &v1alpha1.RestartBackoff{BaseSeconds: ptr.To[int32](1), MaxSeconds: ptr.To[int32](3)},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{annotationRevision: "1"}},
				Spec:       spec,
			},
		},
	}
	return in
}

// container makes one that obeys, delays or ignores SIGTERM, with or without a
// hook, and may exit by itself.
func (in *incarnation) container(dice *rand.Rand, name string) corev1.Container {
	field := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
	}
	c := corev1.Container{
		Name: name, Image: localstack.ImageV1,
		Args: []string{
			"serve", "--quiet-start=100ms", "--log-file=/dir/" + name, "--log-by-container", "--heartbeat=" + heartbeat.String(),
			"--exclusive=/dir/" + name + ".lock",
			"--mark=" + history.Mark("$(UID)", strconv.Itoa(in.number), "$(REVISION)", strconv.FormatInt(in.grace, 10)),
		},
		Env: []corev1.EnvVar{
			{Name: "UID", ValueFrom: field("metadata.uid")},
			{Name: "REVISION", ValueFrom: field("metadata.annotations['" + annotationRevision + "']")},
			{Name: "CHANGED", Value: "1"},
		},
		VolumeMounts: []corev1.VolumeMount{{Name: "dir", MountPath: "/dir"}},
	}
	switch dice.IntN(5) {
	case 0:
		c.Args = append(c.Args, "--on-term=ignore")
	case 1, 2:
		c.Args = append(c.Args, fmt.Sprintf("--on-term=delay:%dms", 100+dice.IntN(1500)))
	}
	if dice.IntN(6) == 0 {
		c.Args = append(c.Args, fmt.Sprintf("--exit-after=%ds", 3+dice.IntN(8)), fmt.Sprintf("--exit-code=%d", dice.IntN(2)))
	}
	hook := []string{"/testprogram", "signal", "USR1", "1"}
	switch dice.IntN(8) {
	case 0, 1:
		c.Lifecycle = preStop(hook)
	case 2:
		c.Lifecycle = preStop(slicesWith(hook, "sleep", "1500ms"))
	case 3:
		c.Lifecycle = preStop(slicesWith(hook, "sleep", "60s")) // longer than any grace period
	}
	return c
}

// slicesWith runs another command after the hook's.
func slicesWith(hook []string, then ...string) []string {
	return append(append([]string{hook[0], "seq"}, append(hook[1:], ",")...), then...)
}

func preStop(command []string) *corev1.Lifecycle {
	return &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: command}}}
}

// probe gives a container a liveness probe that fails while a file exists. It
// bears with a busy machine.
func (in *incarnation) probe(c *corev1.Container, dir string) {
	in.probed, in.failFile = c.Name, fmt.Sprintf("%s/fail.%d", dir, in.number)
	c.Args = append(c.Args, "--http=:8080", fmt.Sprintf("--fail-file=/dir/fail.%d", in.number))
	c.LivenessProbe = &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(8080)}},
		PeriodSeconds: 1, FailureThreshold: 3, TimeoutSeconds: 10, InitialDelaySeconds: 1,
	}
}

// change edits the template: a field that restarts, or the request to restart.
func change(mw *v1alpha1.ManagedWorkload, revision int, kind history.RequestKind) {
	t := &mw.Spec.Template
	t.Annotations[annotationRevision] = strconv.Itoa(revision)
	if kind == history.Restart {
		t.Annotations[v1alpha1.AnnotationRestartedAt] = strconv.Itoa(revision)
		return
	}
	for _, list := range [][]corev1.Container{t.Spec.InitContainers, t.Spec.Containers} {
		for i := range list {
			list[i].Env[len(list[i].Env)-1].Value = strconv.Itoa(revision)
		}
	}
}
