// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/managertest"
)

const (
	hundred = 100
	// etcdLimit is what etcd takes of an object, in bytes.
	etcdLimit = 1536 * 1024
)

// A hundred containers with the longest names and a kill of each with the longest texts are
// taken by the API server, and the workload reports the last 20 of them.
func TestHundredContainers(t *testing.T) {
	c := newCluster(t)
	n1 := c.node("n1")
	c.shimOn(n1)
	mw := c.workload(func(mw *v1alpha1.ManagedWorkload) {
		mw.Spec.Template.Spec.Containers = nil
		for i := range hundred {
			mw.Spec.Template.Spec.Containers = append(mw.Spec.Template.Spec.Containers, corev1.Container{Name: longName(i), Image: "app:1"})
		}
	})
	await(c, mw, "Ready", readyOn(1))
	nw := c.nodeWorkload(n1)
	updateStatus(c, nw, func(nw *v1alpha1.NodeWorkload) {
		nw.Status.Ready = "0/100"
		for i := range hundred {
			nw.Status.Kills = append(nw.Status.Kills, longKill(i))
			nw.Status.ContainerStatuses = append(nw.Status.ContainerStatuses, corev1.ContainerStatus{
				Name: longName(i), Image: "app:1", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: strings.Repeat("é", 60)}},
			})
		}
	})
	got := await(c, mw, "all kills are counted", func(mw *v1alpha1.ManagedWorkload) bool { return mw.Status.ForcedKills == hundred })
	if n := len(got.Status.RecentKills); n != 20 {
		t.Errorf("%d recent kills, want 20", n)
	}
	c.must(api.Get(t.Context(), client.ObjectKeyFromObject(nw), nw))
	if len(nw.Status.Kills) != hundred || sizeOf(t, nw) > etcdLimit || sizeOf(t, got) > etcdLimit/4 {
		t.Errorf("%d kills, %d bytes, and %d of the ManagedWorkload", len(nw.Status.Kills), sizeOf(t, nw), sizeOf(t, got))
	}
}

func longName(i int) string { return fmt.Sprintf("%s-%03d", strings.Repeat("c", 59), i) }

// longKill has as much text as a shim reports.
func longKill(i int) v1alpha1.KillRecord {
	text := func(n int) string { return strings.Repeat("é", n) }
	k := managertest.Kill(fmt.Sprint("k", i), i, v1alpha1.KillPhaseDone, v1alpha1.KillOutcomeForced)
	k.Container, k.ContainerID, k.RequestedBy, k.Message = longName(i), text(256), text(256), text(1024)
	k.Summary, k.Error, k.Reason, k.StopSignal = text(512), text(1024), text(256), "SIGTERM"
	return k
}

func sizeOf(t *testing.T, o any) int {
	t.Helper()
	data, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return len(data)
}

// dotted is a name of n characters.
func dotted(n int) string { return strings.Repeat(strings.Repeat("n", 62)+".", 5)[:n] }

// The longest names that a ManagedWorkload and a Node may have give a NodeWorkload, a
// revision, labels and a status like any others.
func TestLongNames(t *testing.T) {
	c := newCluster(t)
	long := 253 - len(v1alpha1.LeaseNamePrefix) // of a node: its shim has a Lease
	name, node := dotted(253), c.node(dotted(long-len(c.namespace)-1))
	c.shimOn(node)
	mw := c.workload(func(mw *v1alpha1.ManagedWorkload) { mw.Name = name })
	await(c, mw, "Ready", readyOn(1))
	nw := &v1alpha1.NodeWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: placement.NodeWorkloadName(name, node)}}
	c.must(api.Get(t.Context(), client.ObjectKeyFromObject(nw), nw))
	if len(name) != 253 || len(node) != long || nw.Spec.NodeName != node || nw.Labels[v1alpha1.LabelWorkload] != placement.LabelValue(name) {
		t.Errorf("names of %d and %d characters: %s", len(name), len(node), managertest.Dump(nw.ObjectMeta))
	}
	c.must(api.Delete(t.Context(), mw))
	c.awaitGone(mw)
}
