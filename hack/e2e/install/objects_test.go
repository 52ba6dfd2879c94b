// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
)

const withSettings = `
containers: [{name: c, image: ` + testImage + `, volumeMounts: [{name: files, mountPath: /files}]}]
volumes: [{name: files, configMap: {name: settings}}]`

// turnObjectsOnAndOff adds the component objects to the installation and removes it in the
// order of docs/objects.md. The managers roll over both times, and no container notices.
func turnObjectsOnAndOff(t *testing.T, _ *harness.Workload) {
	before := running(t)
	w := env.New(t)
	w.Apply(withSettings)
	awaitCondition(w, v1alpha1.ConditionAccepted, "the component objects is not installed")

	apply(t, "v1", "objects")
	rolledOut(t, manager)
	for _, manager := range pods(t, "manager") {
		routeObjects(t, manager)
	}
	w.Follow(awaitCondition(w, v1alpha1.ConditionAccepted, "run: kubectl create role managedworkload-token-default"))
	message := awaitCondition(w, v1alpha1.ConditionObjectsAvailable, "run: kubectl create rolebinding")
	if err := env.Kube.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "settings"}, Data: map[string]string{"mode": "shown"},
	}); err != nil {
		t.Fatal(err)
	}
	w.Follow(message)
	w.AwaitReady()
	w.AwaitExec("shown", "c", "cat", "/files/mode")

	w.Delete()
	w.AwaitGone()
	commands := removalCommands(t)
	kubectl(t, commands[0]...) // the APIService
	apply(t, "v1")
	rolledOut(t, manager)
	for _, command := range commands[1:] {
		kubectl(t, command...)
	}
	kubectl(t, "delete", "rolebinding", "managedworkload-objects", "managedworkload-token-default", "-n", w.Namespace)
	kubectl(t, "delete", "role", "managedworkload-token-default", "-n", w.Namespace)
	left := kubectl(t, "get", "apiservices,services,secrets,roles,rolebindings,clusterroles,clusterrolebindings", "--all-namespaces", "-o", "name")
	for _, name := range ours(left) {
		if strings.Contains(name, "objects") || strings.Contains(name, "subresources") || strings.Contains(name, "token") {
			t.Errorf("left of the component: %s", name)
		}
	}
	if diff := cmp.Diff(before, running(t)); diff != "" {
		t.Errorf("containers (-before +after):\n%s", diff)
	}
}

// awaitCondition waits until a condition is False and says something, and returns all that it
// says.
func awaitCondition(w *harness.Workload, kind, words string) string {
	mw := w.AwaitObject(kind+" is False: "+words, func(mw *v1alpha1.ManagedWorkload) bool {
		c := meta.FindStatusCondition(mw.Status.Conditions, kind)
		return c != nil && c.Status == metav1.ConditionFalse && strings.Contains(c.Message, words)
	})
	return meta.FindStatusCondition(mw.Status.Conditions, kind).Message
}

// routeObjects has the API server reach the aggregated API in a manager's pod, as a Service
// with a kube-proxy would, and waits until it answers there.
func routeObjects(t *testing.T, manager corev1.Pod) {
	t.Helper()
	const apiService = "v1alpha1.subresources.managedworkload.dev"
	ports := manager.Spec.Containers[0].Ports
	i := slices.IndexFunc(ports, func(port corev1.ContainerPort) bool { return port.Name == "subresources" })
	if i < 0 {
		t.Fatalf("%s has no port for the aggregated API", manager.Name)
	}
	kubectl(t, "patch", "service", "managedworkload-subresources", "-n", system, "--type=merge", "-p", `{"spec":{"externalName":"`+manager.Status.PodIP+`"}}`)
	kubectl(t, "patch", "apiservice", apiService, "--type=merge", "-p", `{"spec":{"service":{"port":`+strconv.Itoa(int(ports[i].ContainerPort))+`}}}`)
	kubectl(t, "wait", "apiservice/"+apiService, "--for=condition=Available", "--timeout="+harness.Timeout.String())
	var said error
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, harness.Timeout, true, func(ctx context.Context) (bool, error) {
		_, said = env.Stack.Kubectl(ctx, "get", "--raw", "/apis/subresources.managedworkload.dev/v1alpha1")
		return said == nil, nil
	})
	if err != nil {
		t.Fatalf("no answer by %s: %v", manager.Name, said)
	}
}

// removalCommands are the arguments of kubectl in docs/objects.md, from "Remove in this order"
// on.
func removalCommands(t *testing.T) (commands [][]string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, "docs", "objects.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(content), "Remove in this order")
	for line := range strings.Lines(text) {
		if command, found := strings.CutPrefix(strings.TrimSpace(line), "kubectl "); found {
			commands = append(commands, strings.Fields(command))
		}
	}
	if len(commands) != 4 || !slices.Contains(commands[0], "apiservice") {
		t.Fatalf("docs/objects.md removes the component with %q", commands)
	}
	return commands
}
