// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/managertest"
)

func TestWorkloadFromBirthToDeath(t *testing.T) {
	c := newCluster(t)
	n1, n2 := c.node("n1"), c.node("n2")
	c.shimOn(n1, n2)
	mw := c.workload()
	spec := mw.Spec.DeepCopy()
	ready := await(c, mw, "Ready", readyOn(2))
	if diff := cmp.Diff(spec, &ready.Spec); diff != "" {
		t.Errorf("the manager changed the spec (-want +got):\n%s", diff)
	}
	if s := ready.Status; s.DesiredNodes != 2 || s.UpdatedNodes != 2 || s.ReadyNodes != 2 || s.AvailableNodes != 2 || s.Summary != "ready" {
		t.Errorf("status: %s", managertest.Dump(ready))
	}
	nw := await(c, c.nodeWorkload(n1), "its shim responds", func(nw *v1alpha1.NodeWorkload) bool {
		return hasCondition(nw.Status.Conditions, v1alpha1.ConditionShimResponding, metav1.ConditionTrue, v1alpha1.ReasonLeaseRenewed)
	})
	checkNodeWorkload(t, nw, ready, n1)

	uid := nw.UID
	update(c, mw, func(mw *v1alpha1.ManagedWorkload) { mw.Spec.Template.Spec.Containers[0].Image = "app:2" })
	await(c, mw, "Ready with the new template", func(mw *v1alpha1.ManagedWorkload) bool { return readyOn(2)(mw) && mw.Generation > ready.Generation })
	c.must(api.Get(t.Context(), client.ObjectKeyFromObject(nw), nw))
	if nw.UID != uid || nw.Spec.Template.Spec.Containers[0].Image != "app:2" {
		t.Errorf("not updated in place: %s", managertest.Dump(nw))
	}

	c.must(api.Delete(t.Context(), mw))
	c.awaitGone(mw)
	for _, node := range []string{n1, n2} {
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(c.nodeWorkload(node)), c.nodeWorkload(node)); !apierrors.IsNotFound(err) {
			t.Errorf("the NodeWorkload of %s outlived its ManagedWorkload: %v", node, err)
		}
		c.awaitEvent(mw, "SuccessfulCreate", placement.NodeWorkloadName("web", node))
		c.awaitEvent(mw, "SuccessfulDelete", placement.NodeWorkloadName("web", node))
		c.awaitEvent(mw, "Killed", "on node "+node+": SIGTERM ignored")
	}
}

func checkNodeWorkload(t *testing.T, nw *v1alpha1.NodeWorkload, mw *v1alpha1.ManagedWorkload, node string) {
	t.Helper()
	want := metav1.OwnerReference{
		APIVersion: "managedworkload.dev/v1alpha1", Kind: "ManagedWorkload", Name: mw.Name, UID: mw.UID,
		Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
	}
	if diff := cmp.Diff([]metav1.OwnerReference{want}, nw.OwnerReferences); diff != "" {
		t.Errorf("owner (-want +got):\n%s", diff)
	}
	if nw.Labels[v1alpha1.LabelWorkload] != mw.Name || nw.Labels[v1alpha1.LabelNode] != node || nw.Spec.NodeName != node ||
		!slices.Contains(nw.Finalizers, v1alpha1.Finalizer) {
		t.Errorf("NodeWorkload: %s", managertest.Dump(nw))
	}
	if s := nw.Spec.Template.Spec; ptr.Deref(s.TerminationGracePeriodSeconds, 0) != 30 || s.RestartPolicy != corev1.RestartPolicyAlways {
		t.Errorf("defaults are not pinned: %s", managertest.Dump(nw.Spec))
	}
	if !meta.IsStatusConditionTrue(nw.Status.Conditions, v1alpha1.ConditionReady) {
		t.Errorf("conditions: %s", managertest.Dump(nw.Status.Conditions))
	}
}

// At every moment that kstatus calls the object current, every node runs its
// template.
func TestKstatusIsNeverAhead(t *testing.T) {
	c := newCluster(t)
	var names []string
	for _, n := range []string{"n1", "n2", "n3"} {
		names = append(names, c.node(n))
	}
	c.shimOn(names...)
	mw := c.workload()
	for _, image := range []string{"app:1", "app:2", "app:3", "app:4"} {
		update(c, mw, func(mw *v1alpha1.ManagedWorkload) { mw.Spec.Template.Spec.Containers[0].Image = image })
		generation := mw.Generation
		await(c, mw, "current with "+image, func(seen *v1alpha1.ManagedWorkload) bool {
			if managertest.Kstatus(seen) != "Current" {
				return false
			}
			want := seen.Spec.Template.DeepCopy()
			template.SetDefaults(want)
			nodeWorkloads := &v1alpha1.NodeWorkloadList{}
			c.must(api.List(t.Context(), nodeWorkloads, client.InNamespace(c.namespace)))
			for _, nw := range nodeWorkloads.Items {
				if seen.Generation == generation && nw.Status.TemplateHash != template.Hash(want) {
					t.Errorf("Current while %s runs another template: %s", nw.Name, managertest.Dump(seen))
				}
			}
			return seen.Generation == generation && len(nodeWorkloads.Items) == len(names)
		})
	}
}

func TestPlacementFollowsNodes(t *testing.T) {
	c := newCluster(t)
	n1, n2 := c.node("n1"), c.node("n2", managertest.Taint("dedicated", corev1.TaintEffectNoSchedule))
	c.shimOn(n1, n2)
	mw := c.workload()
	await(c, mw, "Ready on one node", readyOn(1))

	c.updateNode(n2, func(n *corev1.Node) { n.Spec.Taints = nil })
	await(c, mw, "Ready on both nodes", func(mw *v1alpha1.ManagedWorkload) bool { return isReady(mw) && mw.Status.ReadyNodes == 2 })

	c.updateNode(n2, func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{managertest.Taint("dedicated", corev1.TaintEffectNoSchedule)}
	})
	await(c, mw, "one node desired", readyOn(1))
	c.must(api.Get(t.Context(), client.ObjectKeyFromObject(c.nodeWorkload(n2)), c.nodeWorkload(n2))) // NoSchedule ends nothing

	c.updateNode(n2, func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{managertest.Taint("dedicated", corev1.TaintEffectNoExecute)}
	})
	c.awaitGone(c.nodeWorkload(n2))

	n3 := c.node("n3")
	c.lease(n3, 3600)
	await(c, c.nodeWorkload(n3), "NodeWorkload on a new node", func(nw *v1alpha1.NodeWorkload) bool { return nw.Spec.NodeName == n3 })

	c.updateNode(n1, func(n *corev1.Node) { delete(n.Labels, "test") })
	c.awaitGone(c.nodeWorkload(n1))
	await(c, mw, "kept record", func(mw *v1alpha1.ManagedWorkload) bool {
		return slices.ContainsFunc(mw.Status.RecentKills, func(k v1alpha1.NodeKillRecord) bool {
			return k.NodeName == n1 && k.RequestedBy == "manager (node no longer matches)"
		})
	})
}

// A back-off of the workload's own goes to its nodes, and changes there without
// another template.
func TestRestartBackoffIsCopied(t *testing.T) {
	c := newCluster(t)
	n1 := c.node("n1")
	c.shimOn(n1)
	mw := c.workload(func(mw *v1alpha1.ManagedWorkload) {
		mw.Spec.RestartBackoff = &v1alpha1.RestartBackoff{BaseSeconds: ptr.To[int32](2), MaxSeconds: ptr.To[int32](8)}
	})
	has := func(base, maximum int32) func(*v1alpha1.NodeWorkload) bool {
		return func(nw *v1alpha1.NodeWorkload) bool {
			b := nw.Spec.RestartBackoff
			return b != nil && ptr.Deref(b.BaseSeconds, 0) == base && ptr.Deref(b.MaxSeconds, 0) == maximum
		}
	}
	created := await(c, c.nodeWorkload(n1), "NodeWorkload with the back-off", has(2, 8))
	hash := template.Hash(&created.Spec.Template)
	update(c, mw, func(mw *v1alpha1.ManagedWorkload) { mw.Spec.RestartBackoff.MaxSeconds = ptr.To[int32](4) })
	changed := await(c, c.nodeWorkload(n1), "NodeWorkload with the new back-off", has(2, 4))
	if got := template.Hash(&changed.Spec.Template); got != hash || changed.UID != created.UID {
		t.Errorf("The template changed from %s to %s, or the object from %s to %s", hash, got, created.UID, changed.UID)
	}
	update(c, mw, func(mw *v1alpha1.ManagedWorkload) { mw.Spec.RestartBackoff = nil })
	await(c, c.nodeWorkload(n1), "NodeWorkload without a back-off of its own", func(nw *v1alpha1.NodeWorkload) bool { return nw.Spec.RestartBackoff == nil })
}

func TestNodeWorkloadDeletedByHandComesBack(t *testing.T) {
	c := newCluster(t)
	n1 := c.node("n1")
	c.shimOn(n1)
	mw := c.workload()
	await(c, mw, "Ready", readyOn(1))
	nw := c.nodeWorkload(n1)
	c.must(api.Get(t.Context(), client.ObjectKeyFromObject(nw), nw))
	old := nw.UID
	c.must(api.Delete(t.Context(), nw))
	await(c, c.nodeWorkload(n1), "a new one", func(nw *v1alpha1.NodeWorkload) bool { return nw.UID != old })
	await(c, mw, "Ready again, with the record", func(mw *v1alpha1.ManagedWorkload) bool {
		return isReady(mw) && mw.Status.ForcedKills == 1 && mw.Status.RecentKills[0].NodeName == n1
	})
}

func TestTerminalNodeWorkloadIsReplaced(t *testing.T) {
	c := newCluster(t)
	n1 := c.node("n1")
	c.shimOn(n1)
	mw := c.workload(func(mw *v1alpha1.ManagedWorkload) {
		mw.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	})
	await(c, mw, "Ready", readyOn(1))
	nw := c.nodeWorkload(n1)
	end := func(phase corev1.PodPhase) {
		updateStatus(c, nw, func(nw *v1alpha1.NodeWorkload) {
			nw.Status.Phase = phase
			meta.SetStatusCondition(&nw.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "PodCompleted"})
		})
	}
	end(corev1.PodFailed)
	await(c, mw, "Stalled", func(mw *v1alpha1.ManagedWorkload) bool {
		return hasCondition(mw.Status.Conditions, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonFailed)
	})
	old := nw.UID
	update(c, mw, func(mw *v1alpha1.ManagedWorkload) { mw.Spec.Template.Spec.Containers[0].Image = "app:2" })
	await(c, c.nodeWorkload(n1), "replaced", func(nw *v1alpha1.NodeWorkload) bool {
		return nw.UID != old && nw.Spec.Template.Spec.Containers[0].Image == "app:2"
	})
	await(c, mw, "Ready", readyOn(1))
	end(corev1.PodSucceeded)
	await(c, mw, "Completed", func(mw *v1alpha1.ManagedWorkload) bool {
		return hasCondition(mw.Status.Conditions, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonCompleted)
	})
}

func TestRefusedTemplates(t *testing.T) {
	tests := map[string]struct {
		namespace  map[string]string
		change     func(*corev1.PodSpec)
		wantReason string
		wantWords  []string
	}{
		"refused fields, all of them": {
			change: func(s *corev1.PodSpec) {
				s.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(80)}}}
				s.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "debug:1"}}}
			},
			wantReason: v1alpha1.ReasonRefusedFields,
			wantWords:  []string{"spec.template.spec.containers[0].lifecycle.preStop.tcpSocket", "spec.template.spec.ephemeralContainers"},
		},
		"two containers of one name": {
			change:     func(s *corev1.PodSpec) { s.InitContainers = []corev1.Container{{Name: "app", Image: "init:1"}} },
			wantReason: v1alpha1.ReasonInvalidTemplate, wantWords: []string{"spec.initContainers[0].name", "Duplicate value"},
		},
		"not allowed in its namespace": {
			namespace:  map[string]string{"pod-security.kubernetes.io/enforce": "baseline"},
			change:     func(s *corev1.PodSpec) { s.HostNetwork = true },
			wantReason: v1alpha1.ReasonInvalidTemplate, wantWords: []string{"violates PodSecurity", "host namespaces"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			n1 := c.node("n1")
			c.shimOn(n1)
			update(c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.namespace}}, func(ns *corev1.Namespace) {
				for k, v := range tc.namespace {
					metav1.SetMetaDataLabel(&ns.ObjectMeta, k, v)
				}
			})
			mw := c.workload()
			await(c, mw, "Ready", readyOn(1))
			before := c.nodeWorkload(n1)
			c.must(api.Get(t.Context(), client.ObjectKeyFromObject(before), before))

			update(c, mw, func(mw *v1alpha1.ManagedWorkload) { tc.change(&mw.Spec.Template.Spec) })
			got := await(c, mw, "refused", func(mw *v1alpha1.ManagedWorkload) bool {
				return hasCondition(mw.Status.Conditions, v1alpha1.ConditionAccepted, metav1.ConditionFalse, tc.wantReason) && managertest.Kstatus(mw) == "Failed"
			})
			message := meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionAccepted).Message
			for _, words := range tc.wantWords {
				if !strings.Contains(message, words) {
					t.Errorf("message %q lacks %q", message, words)
				}
			}
			if !strings.HasPrefix(got.Status.Summary, "refused: ") || got.Status.ReadyNodes != 1 {
				t.Errorf("status: %s", managertest.Dump(got.Status))
			}
			c.awaitEvent(mw, tc.wantReason, tc.wantWords[0])
			after := c.nodeWorkload(n1)
			c.must(api.Get(t.Context(), client.ObjectKeyFromObject(after), after))
			if after.Generation != before.Generation || after.UID != before.UID {
				t.Errorf("the NodeWorkload was changed: %s", managertest.Dump(after))
			}

			update(c, mw, func(mw *v1alpha1.ManagedWorkload) {
				mw.Spec.Template.Spec = corev1.PodSpec{NodeSelector: mw.Spec.Template.Spec.NodeSelector, Containers: []corev1.Container{{Name: "app", Image: "app:2"}}}
			})
			await(c, mw, "accepted again", readyOn(1))
		})
	}
}

func TestIgnoredFields(t *testing.T) {
	c := newCluster(t)
	mw := c.workload(func(mw *v1alpha1.ManagedWorkload) { mw.Spec.Template.Spec.SchedulerName = "mine" })
	got := await(c, mw, "accepted", func(mw *v1alpha1.ManagedWorkload) bool {
		return hasCondition(mw.Status.Conditions, v1alpha1.ConditionAccepted, metav1.ConditionTrue, v1alpha1.ReasonAccepted)
	})
	if m := meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionAccepted).Message; !strings.Contains(m, "spec.template.spec.schedulerName") {
		t.Errorf("message %q does not name the field", m)
	}
	if !hasCondition(got.Status.Conditions, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonNoMatchingNodes) {
		t.Errorf("conditions: %s", managertest.Dump(got.Status.Conditions))
	}
	c.awaitEvent(mw, "FieldsIgnored", "spec.template.spec.schedulerName")
}

func TestNameConflict(t *testing.T) {
	c := newCluster(t)
	n1 := c.node("n1")
	c.shimOn(n1)
	other := c.nodeWorkload(n1)
	other.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "other", UID: "abc", Controller: ptr.To(true)}}
	other.Labels = map[string]string{v1alpha1.LabelWorkload: "web"}
	other.Spec = v1alpha1.NodeWorkloadSpec{NodeName: n1, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "other", Image: "other:1"}}}}}
	c.must(api.Create(t.Context(), other))
	mw := c.workload()
	await(c, mw, "stalled", func(mw *v1alpha1.ManagedWorkload) bool {
		return hasCondition(mw.Status.Conditions, v1alpha1.ConditionStalled, metav1.ConditionTrue, "NameConflict") &&
			strings.Contains(meta.FindStatusCondition(mw.Status.Conditions, v1alpha1.ConditionStalled).Message, "ConfigMap other")
	})
	c.awaitEvent(mw, "NameConflict", "ConfigMap other")
	current := c.nodeWorkload(n1)
	c.must(api.Get(t.Context(), client.ObjectKeyFromObject(current), current))
	if current.UID != other.UID || current.Spec.Template.Spec.Containers[0].Name != "other" {
		t.Errorf("another's NodeWorkload was touched: %s", managertest.Dump(current))
	}
	c.must(api.Delete(t.Context(), current))
	await(c, mw, "Ready when the place is free", readyOn(1))
}

func TestRecentKills(t *testing.T) {
	c := newCluster(t)
	n1 := c.node("n1")
	c.shimOn(n1)
	mw := c.workload()
	await(c, mw, "Ready", readyOn(1))
	nw := c.nodeWorkload(n1)
	begun := managertest.Kill("k1", 1, v1alpha1.KillPhaseStopping, "")
	updateStatus(c, nw, func(nw *v1alpha1.NodeWorkload) { nw.Status.Kills = []v1alpha1.KillRecord{begun} })
	await(c, mw, "a kill under way", func(mw *v1alpha1.ManagedWorkload) bool {
		return len(mw.Status.RecentKills) == 1 && mw.Status.RecentKills[0].Phase == v1alpha1.KillPhaseStopping
	})
	done := managertest.Kill("k1", 1, v1alpha1.KillPhaseDone, v1alpha1.KillOutcomeForced)
	updateStatus(c, nw, func(nw *v1alpha1.NodeWorkload) { nw.Status.Kills = []v1alpha1.KillRecord{done} })
	got := await(c, mw, "the kill's end", func(mw *v1alpha1.ManagedWorkload) bool {
		return len(mw.Status.RecentKills) == 1 && mw.Status.RecentKills[0].Phase == v1alpha1.KillPhaseDone
	})
	if got.Status.ForcedKills != 1 || got.Status.RecentKills[0].NodeWorkload != nw.Name {
		t.Errorf("status: %s", managertest.Dump(got.Status))
	}
}

// The last words of many NodeWorkloads that end at once stand in the status
// before their ManagedWorkload goes.
func TestLastKillsAreWrittenBeforeTheEnd(t *testing.T) {
	c := newCluster(t)
	var nodes []string
	for _, n := range []string{"n1", "n2", "n3", "n4", "n5"} {
		nodes = append(nodes, c.node(n))
	}
	c.shimOn(nodes...)
	mw := c.workload()
	await(c, mw, "Ready", readyOn(5))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	w := c.watch(ctx, mw)
	defer w.Stop()
	c.must(api.Delete(ctx, mw))
	var last *v1alpha1.ManagedWorkload
	for e := range w.ResultChan() {
		if seen, ok := e.Object.(*v1alpha1.ManagedWorkload); ok {
			last = seen
		}
		if e.Type == "DELETED" {
			break
		}
	}
	if last == nil || len(last.Status.RecentKills) != len(nodes) || last.Status.ForcedKills != 5 {
		t.Errorf("last seen: %s", managertest.Dump(last))
	}
}
