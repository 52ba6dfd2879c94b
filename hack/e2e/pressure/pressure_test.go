// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package pressure

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
)

// serves is a workload that uses so many bytes of the disk, and ignores SIGTERM or not.
func serves(t *testing.T, bytes int, flags string) *harness.Workload {
	t.Helper()
	return env.Apply(t, fmt.Sprintf(`
terminationGracePeriodSeconds: 30
containers:
- name: c
  image: managedworkload.dev/testprogram:v1
  args: [seq, write, /data/file, %s, ",", serve%s]
  volumeMounts: [{name: data, mountPath: /data}]
volumes: [{name: data, emptyDir: {}}]`, strings.Repeat("x", bytes), flags))
}

// Where less is free than a hard threshold says, the workload that uses most is ended within a
// second of grace, and its successor and any new one wait until the pressure is over; what runs
// stays.
func TestNodePressure(t *testing.T) {
	small := serves(t, 1, "")
	runs := small.AwaitReady()
	big := serves(t, 90<<10, "")
	before := big.AwaitReady()

	ballast := filepath.Join(logs, "ballast")
	if err := os.WriteFile(ballast, make([]byte, size-sizeFree+1), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(ballast) })
	ended := evicted(t, big, before)
	if err := os.Remove(ballast); err != nil { // before the next round
		t.Fatal(err)
	}
	const words = "The node was low on resource: ephemeral-storage. Threshold quantity: 32Mi, available: "
	if !strings.HasPrefix(ended.Status.Message, words) {
		t.Errorf("message %q", ended.Status.Message)
	}
	refused(t, big, "[DiskPressure]")
	late := serves(t, 1, "")
	refused(t, late, "[DiskPressure]")
	pressure(t, "DiskPressure")

	hardKill(t, big, ended.Status.Message)
	event := big.AwaitEvent("Evicted", ended.Status.Message)
	if event.Annotations["starved_resource"] != "ephemeral-storage" || event.Annotations["offending_containers"] != "c" {
		t.Errorf("annotations of the event: %v", event.Annotations)
	}
	big.AwaitReady()
	late.AwaitReady()
	pressure(t, "")
	if now := small.AwaitReady(); now.UID != runs.UID || now.Status.ContainerStatuses[0].ContainerID != runs.Status.ContainerStatuses[0].ContainerID {
		t.Errorf("what uses least was ended too: %+v", now.Status)
	}
}

// Where a soft threshold is met for its time, the workload has the smaller of the node's longest
// grace period and its own.
func TestSoftThreshold(t *testing.T) {
	w := serves(t, 1, ", --on-term=ignore")
	before := w.AwaitReady()
	many := filepath.Join(logs, "many")
	t.Cleanup(func() { _ = os.RemoveAll(many) })
	if err := os.Mkdir(many, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range inodes - inodesFree {
		if err := os.WriteFile(filepath.Join(many, fmt.Sprint(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	evicted(t, w, before)
	if err := os.RemoveAll(many); err != nil {
		t.Fatal(err)
	}
	kill := recorded(t, w)[0]
	if kill.Trigger != v1alpha1.TriggerNodePressure || kill.Grace.Seconds != softGrace || kill.Outcome != v1alpha1.KillOutcomeForced ||
		!strings.HasPrefix(kill.Message, "The node was low on resource: inodes. Threshold quantity: 1k, available: ") {
		t.Errorf("kill record %+v", kill)
	}
}

// evicted awaits the end of a workload for the node's sake.
func evicted(t *testing.T, w *harness.Workload, before *v1alpha1.NodeWorkload) *v1alpha1.NodeWorkload {
	t.Helper()
	ended := w.Await("it ends for the node's sake", func(nw *v1alpha1.NodeWorkload) bool {
		return nw.UID == before.UID && nw.Status.Phase == corev1.PodFailed
	})
	disruption := meta.FindStatusCondition(ended.Status.Conditions, string(corev1.DisruptionTarget))
	if ended.Status.Reason != "Evicted" || disruption == nil || disruption.Reason != "TerminationByKubelet" || disruption.Message != ended.Status.Message {
		t.Errorf("reason %q, message %q, condition %+v", ended.Status.Reason, ended.Status.Message, disruption)
	}
	return ended
}

// hardKill checks the kills where a hard threshold was met.
func hardKill(t *testing.T, w *harness.Workload, message string) {
	t.Helper()
	for _, kill := range recorded(t, w) {
		if kill.Trigger != v1alpha1.TriggerNodePressure || kill.Grace.Seconds != 1 || kill.Grace.Source != v1alpha1.GraceSourceOverride ||
			kill.Message != message || kill.RequestedBy != "shim (node pressure)" || kill.FinishTime == nil || kill.Outcome != v1alpha1.KillOutcomeGraceful {
			t.Errorf("kill record %+v", kill)
		}
	}
}

// recorded are the kills of a workload, once all its containers have ended.
func recorded(t *testing.T, w *harness.Workload) (kills []v1alpha1.KillRecord) {
	t.Helper()
	mw := w.AwaitObject("its kills are reported", func(mw *v1alpha1.ManagedWorkload) bool {
		return len(mw.Status.RecentKills) >= len(mw.Spec.Template.Spec.Containers) &&
			!slices.ContainsFunc(mw.Status.RecentKills, func(k v1alpha1.NodeKillRecord) bool { return k.Phase != v1alpha1.KillPhaseDone })
	})
	for _, kill := range mw.Status.RecentKills {
		kills = append(kills, kill.KillRecord)
	}
	return kills
}

// refused awaits that the node takes nothing new, and checks that nothing of it was started.
func refused(t *testing.T, w *harness.Workload, conditions string) {
	t.Helper()
	nw := w.Await("nothing new is started", func(nw *v1alpha1.NodeWorkload) bool {
		c := meta.FindStatusCondition(nw.Status.Conditions, v1alpha1.ConditionTemplateAccepted)
		return c != nil && c.Status == metav1.ConditionFalse && c.Reason == "Evicted" && c.Message == "The node had condition: "+conditions+". "
	})
	if len(w.Processes()) > 0 || nw.Status.Phase == corev1.PodRunning {
		t.Errorf("something of it runs: %+v", nw.Status)
	}
}

// pressure checks what the Node and the Lease of the shim say.
func pressure(t *testing.T, want string) {
	t.Helper()
	node := &corev1.Node{}
	name := env.Stack.Nodes[0].NodeName()
	lease := &coordinationv1.Lease{}
	key := client.ObjectKey{Namespace: v1alpha1.DefaultNamespace, Name: v1alpha1.LeaseNamePrefix + name}
	says := func() bool {
		if env.Kube.Get(t.Context(), client.ObjectKey{Name: name}, node) != nil || env.Kube.Get(t.Context(), key, lease) != nil {
			return false
		}
		var short []string
		for _, kind := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
			if slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == kind && c.Status == corev1.ConditionTrue }) {
				short = append(short, string(kind))
			}
		}
		return strings.Join(short, ",") == want && lease.Annotations[v1alpha1.AnnotationNodePressure] == want
	}
	for deadline := time.Now().Add(harness.Timeout); !says(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("Node %+v and Lease %v do not say %q", node.Status.Conditions, lease.Annotations, want)
		}
	}
}
