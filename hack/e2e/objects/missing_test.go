// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// atOnce is how soon a container starts when what it waits for is there.
const atOnce = 15 * time.Second

// A container waits for an object in the kubelet's words, and starts when it is made.
func testMissing(t *testing.T) {
	w := onFirst(t)
	w.AllowObjects()
	w.Apply(first() + `
containers:
- name: c
  image: ` + testImage + `
  env: [{name: KEY, valueFrom: {secretKeyRef: {name: late, key: key}}}]`)
	w.Await("the container waits", waits("CreateContainerConfigError", `secret "late" not found`))
	w.KubectlApply(secret("late", "other", hidden+"-other"))
	w.Await("the container waits for the key", waits("CreateContainerConfigError", "couldn't find key key in Secret "+w.Namespace+"/late"))
	w.KubectlApply(secret("late", "key", hidden+"-late"))
	made := time.Now()
	w.AwaitReady()
	if took := time.Since(made); took > atOnce {
		t.Errorf("it started %s after the object was made", took)
	}

	w.Apply(first() + `
containers: [{name: c, image: ` + testImage + `, volumeMounts: [{name: files, mountPath: /files}]}]
volumes: [{name: files, configMap: {name: files}}]`)
	w.AwaitObject("a condition names what is missing", func(mw *v1alpha1.ManagedWorkload) bool {
		return condition(mw, `configmap "files"`)
	})
	if kills := w.Node().Status.Kills; len(kills) > 0 {
		t.Errorf("killed before the new template's objects were there: %v", kills)
	}
	w.KubectlApply(configMap("files", "a", "there"))
	w.AwaitExec("there", "c", "cat", "/files/a")

	late := onFirst(t)
	late.AllowObjects()
	late.Apply(first() + `
containers: [{name: c, image: ` + testImage + `, volumeMounts: [{name: files, mountPath: /files}]}]
volumes: [{name: files, configMap: {name: files}}]`)
	late.AwaitEvent("FailedMount", `MountVolume.SetUp failed for volume "files" : configmap "files" not found`)
	late.KubectlApply(configMap("files", "a", "there"))
	late.AwaitReady()
}

// Without rights in the namespace the template is refused for its token, and then a condition says
// what may not be read; the commands that both name work.
func testNoRight(t *testing.T) {
	w := onFirst(t)
	w.KubectlApply(secret("key", "key", hidden+"-right"))
	w.Apply(first() + `
containers:
- name: c
  image: ` + testImage + `
  env: [{name: KEY, valueFrom: {secretKeyRef: {name: key, key: key}}}]`)
	for _, kind := range []string{v1alpha1.ConditionAccepted, v1alpha1.ConditionObjectsAvailable} {
		mw := w.AwaitObject(kind+" names the command", func(mw *v1alpha1.ManagedWorkload) bool {
			c := meta.FindStatusCondition(mw.Status.Conditions, kind)
			return c != nil && c.Status == metav1.ConditionFalse && c.Reason == v1alpha1.ReasonNoRight
		})
		w.Follow(meta.FindStatusCondition(mw.Status.Conditions, kind).Message)
	}
	w.AwaitReady()
	w.AwaitExec(hidden+"-right", "c", "env", "KEY")
}

// condition reports that the workload's condition about objects is False in these words.
func condition(mw *v1alpha1.ManagedWorkload, words string) bool {
	c := meta.FindStatusCondition(mw.Status.Conditions, v1alpha1.ConditionObjectsAvailable)
	return c != nil && c.Status == metav1.ConditionFalse && strings.Contains(c.Message, words)
}

// waits reports that the container waits for a reason.
func waits(reason, message string) func(*v1alpha1.NodeWorkload) bool {
	return func(nw *v1alpha1.NodeWorkload) bool {
		c := nw.Status.ContainerStatuses
		return len(c) == 1 && c[0].State.Waiting != nil && c[0].State.Waiting.Reason == reason && strings.Contains(c[0].State.Waiting.Message, message)
	}
}
