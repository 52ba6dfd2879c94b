// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package badinput

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
)

// kubectlApply applies the pod spec as a person does, with kubectl's own strict
// validation, and returns what kubectl complains about.
func kubectlApply(t *testing.T, w *harness.Workload, spec string) error {
	t.Helper()
	indented := strings.ReplaceAll("\n"+strings.TrimSpace(spec), "\n", "\n      ")
	text := fmt.Sprintf("apiVersion: managedworkload.dev/v1alpha1\nkind: ManagedWorkload\nmetadata: {name: %s, namespace: %s}\nspec:\n  template:\n    spec:%s\n",
		w.Name, w.Namespace, strings.ReplaceAll(indented, "$DIR", w.Dir))
	file := filepath.Join(w.Dir, "mw.yaml")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := env.Stack.Kubectl(t.Context(), "apply", "-f", file)
	return err
}

// awaitRefused waits until the template is refused, so that kubectl and kstatus
// see it.
func awaitRefused(w *harness.Workload) *metav1.Condition {
	mw := w.AwaitObject("it is refused", func(mw *v1alpha1.ManagedWorkload) bool {
		return mw.Status.ObservedGeneration == mw.Generation &&
			meta.IsStatusConditionFalse(mw.Status.Conditions, v1alpha1.ConditionAccepted) &&
			meta.IsStatusConditionTrue(mw.Status.Conditions, v1alpha1.ConditionStalled) &&
			meta.IsStatusConditionFalse(mw.Status.Conditions, v1alpha1.ConditionReady)
	})
	return meta.FindStatusCondition(mw.Status.Conditions, v1alpha1.ConditionAccepted)
}

const (
	atAdmission = "admission"
	byCondition = "condition"
)

// What is wrong in a template is refused at admission or by conditions, and the
// message names the path.
func TestRefusedTemplates(t *testing.T) {
	t.Parallel()
	image := "image: " + testImage
	tests := map[string]struct {
		spec  string
		where string
		paths []string
	}{
		"negative grace period": {"terminationGracePeriodSeconds: -5\ncontainers: [{name: c, " + image + "}]",
			atAdmission, []string{"spec.template.spec.terminationGracePeriodSeconds"}},
		"negative grace period of a probe": {"containers: [{name: c, " + image + ", livenessProbe: {exec: {command: [x]}, terminationGracePeriodSeconds: -5}}]",
			atAdmission, []string{"spec.template.spec.containers[0].livenessProbe.terminationGracePeriodSeconds"}},
		"unknown field": {"containers: [{name: c, " + image + ", imagePolicy: Never}]",
			atAdmission, []string{`unknown field "spec.template.spec.containers[0].imagePolicy"`}},
		"duplicate container name": {"containers: [{name: c, " + image + "}, {name: c, " + image + "}]",
			atAdmission, []string{"spec.template.spec.containers[1]", `Duplicate value: {"name":"c"}`}},
		"container name of an init container": {"initContainers: [{name: c, " + image + "}]\ncontainers: [{name: c, " + image + "}]",
			byCondition, []string{"spec.initContainers[0].name", "Duplicate value"}},
		"bad quantity": {"containers: [{name: c, " + image + ", resources: {limits: {memory: much}}}]",
			atAdmission, []string{"spec.template.spec.containers[0].resources.limits.memory"}},
		"request above the limit": {"containers: [{name: c, " + image + ", resources: {limits: {cpu: 1}, requests: {cpu: 2}}}]",
			byCondition, []string{"spec.containers[0].resources.requests"}},
		"bad port": {"containers: [{name: c, " + image + ", ports: [{containerPort: 70000}]}]",
			atAdmission, []string{"spec.template.spec.containers[0].ports[0].containerPort"}},
		"bad port name of a probe": {"containers: [{name: c, " + image + ", readinessProbe: {httpGet: {port: Not_A_Port}}}]",
			byCondition, []string{"spec.containers[0].readinessProbe.httpGet.port"}},
		"no such volume": {"containers: [{name: c, " + image + ", volumeMounts: [{name: none, mountPath: /x}]}]",
			byCondition, []string{"spec.containers[0].volumeMounts[0].name"}},
		"no container": {"containers: []", atAdmission, []string{"spec.template.spec.containers"}},
		"unknown runtime class": {"runtimeClassName: other\ncontainers: [{name: c, " + image + "}]",
			byCondition, []string{`RuntimeClass "other" not found`}},
		"refused fields, all of them at once": {`
hostnameOverride: other
automountServiceAccountToken: true
volumes: [{name: v, nfs: {server: s, path: /p}}]
initContainers: [{name: i, ` + image + `}]
containers: [{name: c, ` + image + `, lifecycle: {preStop: {tcpSocket: {port: 1}}}, resources: {limits: {example.com/gpu: 1}}, env: [{name: E, valueFrom: {fileKeyRef: {volumeName: v, path: p, key: k}}}]}]`,
			byCondition, []string{
				"spec.template.spec.hostnameOverride", "spec.template.spec.automountServiceAccountToken",
				"spec.template.spec.volumes[0].nfs",
				"spec.template.spec.containers[0].lifecycle.preStop.tcpSocket",
				"spec.template.spec.containers[0].resources.limits[example.com/gpu]", "spec.template.spec.containers[0].env[0].valueFrom.fileKeyRef",
			}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := env.New(t)
			err := kubectlApply(t, w, tc.spec)
			if tc.where == atAdmission {
				if err == nil {
					t.Fatal("it was admitted")
				}
				for _, path := range tc.paths {
					contains(t, "kubectl", err.Error(), path)
				}
				return
			}
			if err != nil {
				t.Fatalf("not admitted: %v", err)
			}
			accepted := awaitRefused(w)
			described, err := env.Stack.Kubectl(t.Context(), "describe", "mw", w.Name, "-n", w.Namespace)
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range tc.paths {
				contains(t, "the condition", accepted.Message, path)
				contains(t, "kubectl describe", described, path)
			}
			nws := &v1alpha1.NodeWorkloadList{}
			if err := env.Kube.List(t.Context(), nws); err != nil {
				t.Fatal(err)
			}
			for _, nw := range nws.Items {
				if nw.Namespace == w.Namespace {
					t.Errorf("there is a NodeWorkload %s of a refused template", nw.Name)
				}
			}
		})
	}
}

// A refused change leaves alone what runs, and a good one after it is taken.
func TestRefusedChangeLeavesNodesAlone(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, plain)
	before := w.AwaitReady()
	w.Change(func(tmpl *corev1.PodTemplateSpec) {
		tmpl.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "E", Value: "changed"}}
		tmpl.Spec.HostnameOverride = ptr.To("other")
	})
	accepted := awaitRefused(w)
	if accepted.Reason != v1alpha1.ReasonRefusedFields {
		t.Errorf("reason %s", accepted.Reason)
	}
	after := w.Node()
	if after.Generation != before.Generation || after.Status.Ready != "1/1" || len(w.AwaitFind("c", "started", 1)) != 1 {
		t.Errorf("the node was changed: generation %d to %d, %s ready, journal %q", before.Generation, after.Generation, after.Status.Ready, harness.Texts(w.Journal("c")))
	}
	w.Change(func(tmpl *corev1.PodTemplateSpec) { tmpl.Spec.HostnameOverride = nil })
	w.AwaitTrigger("c", v1alpha1.TriggerDefinitionChanged)
	w.AwaitReady()
}

// The grace period of a deletion may only shrink, also from unset.
func TestGraceMayOnlyShrink(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, plain)
	w.AwaitReady()
	steps := []struct {
		to   *int64
		want string // "" is allowed
	}{
		{ptr.To[int64](-1), "spec.deletionGracePeriodSeconds"},
		{ptr.To[int64](20), ""},
		{ptr.To[int64](21), "deletionGracePeriodSeconds"},
		{nil, "deletionGracePeriodSeconds"},
		{ptr.To[int64](5), ""},
		{ptr.To[int64](0), ""},
		{ptr.To[int64](1), "deletionGracePeriodSeconds"},
	}
	for _, step := range steps {
		nw := w.Node()
		nw.Spec.DeletionGracePeriodSeconds = step.to
		got := env.Kube.Update(t.Context(), nw)
		for apierrors.IsConflict(got) { // the status has changed
			nw = w.Node()
			nw.Spec.DeletionGracePeriodSeconds = step.to
			got = env.Kube.Update(t.Context(), nw)
		}
		switch {
		case step.want == "" && got != nil:
			t.Errorf("to %v: %v", ptr.Deref(step.to, -99), got)
		case step.want != "" && (got == nil || !apierrors.IsInvalid(got)):
			t.Errorf("to %v: %v, want it to be invalid", ptr.Deref(step.to, -99), got)
		case step.want != "":
			contains(t, "error", got.Error(), step.want)
		}
	}
	// Without a deletion it has no meaning.
	if nw := w.Node(); nw.Status.Ready != "1/1" || nw.Status.KillCount != 0 {
		t.Errorf("%s ready, %d kills", nw.Status.Ready, nw.Status.KillCount)
	}
}

// A bad annotation is said, and the template's own grace period is used.
func TestBadGraceAnnotation(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{"word": "soon", "negative": "-5"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := env.Apply(t, `
terminationGracePeriodSeconds: 21
containers: [{name: c, image: `+testImage+`, args: [serve, "--on-term=delay:3s"]}]`)
			w.AwaitReady()
			w.ChangeObject(func(mw *v1alpha1.ManagedWorkload) {
				mw.Annotations = map[string]string{v1alpha1.AnnotationDeletionGracePeriodSeconds: value}
			})
			w.Delete()
			w.AwaitObject("the condition names the annotation", func(mw *v1alpha1.ManagedWorkload) bool {
				c := meta.FindStatusCondition(mw.Status.Conditions, v1alpha1.ConditionReconciling)
				return c != nil && strings.Contains(c.Message, v1alpha1.AnnotationDeletionGracePeriodSeconds) && strings.Contains(c.Message, value)
			})
			kills := w.CollectUntilGone()
			if len(kills) != 1 || kills[0].Grace.Seconds != 21 || kills[0].Grace.Source != v1alpha1.GraceSourcePod || kills[0].Outcome != v1alpha1.KillOutcomeGraceful {
				t.Errorf("kills %+v, want one with the template's 21 s", kills)
			}
		})
	}
}
