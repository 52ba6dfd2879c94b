// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package removal

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
)

// The configuration was applied when the stack came up: a client-side apply fits
// the API server's limits, once more it changes nothing.
func TestApplyTwice(t *testing.T) {
	out := kubectl(t, "apply", "-k", config())
	for line := range strings.Lines(out) {
		if !strings.HasSuffix(strings.TrimSpace(line), " unchanged") && !strings.HasSuffix(strings.TrimSpace(line), " configured") {
			t.Errorf("applied again: %s", line)
		}
	}
	for _, crd := range []string{"managedworkloads", "nodeworkloads"} {
		if !strings.Contains(out, "customresourcedefinition.apiextensions.k8s.io/"+crd+".managedworkload.dev unchanged") {
			t.Errorf("the CRD of %s is not unchanged:\n%s", crd, out)
		}
	}
}

func TestExplain(t *testing.T) {
	tests := map[string]string{
		"mw":                        "KIND:       ManagedWorkload",
		"mw.spec":                   "A DaemonSet's\n",
		"mw.spec.template":          "can be pasted in",
		"mw.spec.template.spec":     "containers\t<[]Object>",
		"mw.status.recentKills":     "They outlive",
		"nw.status.kills.grace":     "preStop hook, waiting",
		"nw.spec":                   "may only shrink",
		"managedworkload.status":    "observedGeneration",
		"nodeworkloads.status":      "containerStatuses",
		"nw.status.kills.trigger":   "ENUM:",
		"nw.status.kills.stopTime":  "StopContainer was called",
		"mw.spec.template.metadata": "labels",
	}
	// explain, unlike get, does not look for kinds that kubectl has not seen yet.
	kubectl(t, "get", "mw", "--all-namespaces")
	for path, want := range tests {
		if out := kubectl(t, "explain", path); !strings.Contains(strings.Join(strings.Fields(out), " "), strings.Join(strings.Fields(want), " ")) {
			t.Errorf("kubectl explain %s does not say %q:\n%s", path, want, out)
		}
	}
}

// Apply, wait, get and describe, with the columns that tell what happened.
func TestGetAndWait(t *testing.T) {
	w := env.Apply(t, `
terminationGracePeriodSeconds: 2
containers: [{name: c, image: `+testImage+`, args: [serve, --on-term=ignore]}]`)
	kubectl(t, "wait", "mw", w.Name, "-n", w.Namespace, "--for=condition=Ready", "--timeout=60s")
	if n := containers(t, w.Namespace); n != 1 {
		t.Errorf("kubectl wait returned with %d running containers", n)
	}
	kubectl(t, "wait", "nw", w.Node().Name, "-n", w.Namespace, "--for=condition=Ready", "--timeout=60s")
	w.Change(func(tmpl *corev1.PodTemplateSpec) {
		tmpl.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "CHANGED", Value: "yes"}}
	})
	kill := w.AwaitTrigger("c", v1alpha1.TriggerDefinitionChanged)
	w.AwaitReady()
	w.AwaitObject("the kill is counted", func(mw *v1alpha1.ManagedWorkload) bool { return mw.Status.ForcedKills == 1 })

	mw := kubectl(t, "get", "mw", "-n", w.Namespace)
	if got, want := header(mw), "NAME DESIRED UPDATED READY FORCED STATUS AGE"; got != want {
		t.Errorf("columns of mw %q, want %q", got, want)
	}
	if got, want := header(kubectl(t, "get", "mw", "-o", "wide", "-n", w.Namespace)), "NAME DESIRED CURRENT UPDATED READY AVAILABLE MISSCHEDULED DRAINED UNREACHABLE FORCED STATUS AGE"; got != want {
		t.Errorf("wide columns of mw %q, want %q", got, want)
	}
	row := strings.Fields(strings.Split(mw, "\n")[1])
	if got := row[:5]; !slices.Equal(got, []string{"w", "1", "1", "1", "1"}) {
		t.Errorf("row of mw %q", row)
	}
	if w.Get().Status.Summary == "" || !strings.Contains(mw, w.Get().Status.Summary) {
		t.Errorf("STATUS of mw: %q, summary %q", mw, w.Get().Status.Summary)
	}
	nw := kubectl(t, "get", "nw", "-n", w.Namespace)
	if got, want := header(nw), "NAME READY STATUS RESTARTS LAST-KILL AGE"; got != want {
		t.Errorf("columns of nw %q, want %q", got, want)
	}
	row = strings.Fields(strings.Split(nw, "\n")[1])
	if got := row[:4]; !slices.Equal(got, []string{w.Node().Name, "1/1", "Running", "1"}) {
		t.Errorf("row of nw %q", row)
	}
	if _, err := time.ParseDuration(row[4]); err != nil {
		t.Errorf("LAST-KILL of nw: %q, want how long ago it was", nw)
	}
	wide := kubectl(t, "get", "nw", "-o", "wide", "-n", w.Namespace)
	if got, want := header(wide), "NAME NODE READY STATUS RESTARTS LAST-KILL KILLED HOW RESERVED LAST-EXIT AGE"; got != want {
		t.Errorf("wide columns of nw %q, want %q", got, want)
	}
	if !strings.Contains(strings.Join(strings.Fields(wide), " "), " c "+kill.Summary) {
		t.Errorf("wide nw does not name the container that was killed, and how: %q", wide)
	}
	// Events are written a moment after the status.
	w.AwaitEvent("Killed", kill.Summary)
	described := kubectl(t, "describe", "nw", w.Node().Name, "-n", w.Namespace)
	for _, want := range []string{"Killing", "Container c definition changed, will be restarted", "Killed", kill.Summary, "Started"} {
		if !strings.Contains(described, want) {
			t.Errorf("kubectl describe nw does not say %q", want)
		}
	}
}

// kubectl delete returns when the containers are gone.
func TestDeleteWaits(t *testing.T) {
	w := env.Apply(t, `
containers: [{name: c, image: `+testImage+`, args: [serve, --log-file=/dir/c, "--on-term=delay:2s"], volumeMounts: [{name: dir, mountPath: /dir}]}]
volumes: [{name: dir, hostPath: {path: $DIR}}]`)
	w.AwaitReady()
	kubectl(t, "delete", "mw", w.Name, "-n", w.Namespace)
	if n := containers(t, w.Namespace); n != 0 {
		t.Errorf("%d containers still run", n)
	}
	if len(w.Find("c", "stopped code=0")) != 1 {
		t.Errorf("the container saw %q", harness.Texts(w.Journal("c")))
	}
	if out := kubectl(t, "get", "mw,nw", "-n", w.Namespace, "-o", "name"); out != "" {
		t.Errorf("left: %s", out)
	}
}

// --cascade=orphan keeps the containers, and a ManagedWorkload of the same name
// takes them over as they are.
func TestCascadeOrphan(t *testing.T) {
	w := env.Apply(t, plain)
	before := w.AwaitReady()
	kubectl(t, "delete", "mw", w.Name, "-n", w.Namespace, "--cascade=orphan")
	left := w.Node()
	if left.UID != before.UID || !left.DeletionTimestamp.IsZero() || metav1.GetControllerOf(left) != nil {
		t.Fatalf("the NodeWorkload: UID %s to %s, deleted %v, owners %v", before.UID, left.UID, left.DeletionTimestamp, left.OwnerReferences)
	}
	if n := containers(t, w.Namespace); n != 1 {
		t.Errorf("%d containers run", n)
	}
	w.Apply(plain)
	after := w.AwaitReady()
	if after.UID != before.UID || after.Status.ContainerStatuses[0].ContainerID != before.Status.ContainerStatuses[0].ContainerID {
		t.Errorf("not adopted: NodeWorkload %s to %s, container %s to %s", before.UID, after.UID,
			before.Status.ContainerStatuses[0].ContainerID, after.Status.ContainerStatuses[0].ContainerID)
	}
	if owner := metav1.GetControllerOf(after); owner == nil || owner.UID != w.Get().UID {
		t.Errorf("owners %v, want the new ManagedWorkload", after.OwnerReferences)
	}
	if got := harness.Texts(w.Journal("c")); len(got) != 1 {
		t.Errorf("the container saw %q, want nothing but its start", got)
	}
	kubectl(t, "delete", "mw", w.Name, "-n", w.Namespace)
	if n := containers(t, w.Namespace); n != 0 {
		t.Errorf("%d containers still run", n)
	}
}
