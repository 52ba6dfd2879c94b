// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
)

// asUser is a client of a user who may edit in the workload's namespace what the project
// has, and has these rights about Pods.
func asUser(t *testing.T, w *harness.Workload, user string, pods ...rbacv1.PolicyRule) client.Client {
	t.Helper()
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}}
	named := metav1.ObjectMeta{Namespace: w.Namespace, Name: user}
	for _, object := range []client.Object{
		&rbacv1.Role{ObjectMeta: named, Rules: pods},
		&rbacv1.RoleBinding{ObjectMeta: named, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user}, Subjects: subjects},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: user + "-edits"}, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "managedworkload-editor"},
		},
	} {
		if err := env.Kube.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	cfg := rest.CopyConfig(env.Stack.RESTConfig())
	cfg.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	kube, err := client.New(cfg, client.Options{Scheme: env.Kube.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return kube
}

// asAlice is a client of a user who may delete Pods and run commands in them, too.
func asAlice(t *testing.T, w *harness.Workload) client.Client {
	t.Helper()
	return asUser(t, w, "alice", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"delete"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods/exec"}, Verbs: []string{"create"}})
}

// request is a KillRequest about container a of the workload on its node.
func request(w *harness.Workload, name string, action v1alpha1.RequestAction) *v1alpha1.KillRequest {
	return &v1alpha1.KillRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name},
		Spec: v1alpha1.KillRequestSpec{
			WorkloadName: w.Name, Nodes: v1alpha1.RequestNodes{Names: []string{env.Stack.Node.NodeName()}},
			Containers: []string{"a"}, Action: action, Reason: "leaks memory",
		},
	}
}

// awaitRequest makes a request and waits until it is in a phase.
func awaitRequest(t *testing.T, kube client.Client, kr *v1alpha1.KillRequest, phase v1alpha1.RequestPhase) {
	t.Helper()
	if err := kube.Create(t.Context(), kr); err != nil {
		t.Fatal(err)
	}
	env.AwaitRequestPhase(t, kr, phase)
}

// ids are the IDs of the containers that run, by name.
func ids(nw *v1alpha1.NodeWorkload) map[string]string {
	ids := map[string]string{}
	for _, c := range nw.Status.ContainerStatuses {
		if c.State.Running != nil {
			ids[c.Name] = c.ContainerID
		}
	}
	return ids
}

const twoContainers = `
terminationGracePeriodSeconds: 20
containers:
- {name: a, image: managedworkload.dev/testprogram:v1, args: [serve, --log-file=/dir/a], volumeMounts: [{name: dir, mountPath: /dir}]}
- {name: b, image: managedworkload.dev/testprogram:v1, args: [serve, --log-file=/dir/b], volumeMounts: [{name: dir, mountPath: /dir}]}` + dirVolume

// A person restarts one container of a node: the record names who and why, and nothing else
// is touched. What must not be done is not done.
func TestKillRequestRestart(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, twoContainers)
	before := ids(w.AwaitReady())
	alice := asAlice(t, w)

	forged := request(w, "forged", v1alpha1.RequestRestart)
	forged.Spec.RequestedBy = "bob"
	if err := alice.Create(t.Context(), forged); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "spec.requestedBy must be alice") {
		t.Errorf("a request in another's name: %v", err)
	}
	carol := asUser(t, w, "carol")
	if err := carol.Create(t.Context(), request(w, "carol", v1alpha1.RequestRestart)); !apierrors.IsForbidden(err) {
		t.Errorf("a request of a user who may not delete pods: %v", err)
	}

	dry := request(w, "dry", v1alpha1.RequestRestart)
	dry.Spec.DryRun = true
	awaitRequest(t, alice, dry, v1alpha1.RequestSucceeded)
	if c := dry.Status.NodeStates[0].Containers[0]; !strings.HasPrefix(c.Message, "would be killed: RestartRequested, grace period 20 s (Pod)") {
		t.Errorf("the dry run says %+v", c)
	}
	other := request(w, "other", v1alpha1.RequestRestart)
	other.Spec.Precondition = &v1alpha1.RequestPrecondition{ContainerID: "containerd://0123"}
	awaitRequest(t, alice, other, v1alpha1.RequestFailed)
	if !meta.IsStatusConditionTrue(other.Status.Conditions, v1alpha1.ConditionFailed) {
		t.Errorf("conditions %+v of a request that has failed", other.Status.Conditions)
	}
	for name, change := range map[string]string{"another name": `{"spec": {"requestedBy": "bob"}}`, "another reason": `{"spec": {"reason": "none"}}`} {
		for user, c := range map[string]client.Client{"alice": alice, "an administrator": env.Kube} {
			if err := c.Patch(t.Context(), other, client.RawPatch(types.MergePatchType, []byte(change))); !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
				t.Errorf("%s by %s: %v", name, user, err)
			}
		}
	}
	if now := w.Node(); len(now.Status.Kills) > 0 || ids(now)["a"] != before["a"] {
		t.Fatalf("something was killed: %+v", now.Status.Kills)
	}

	right := request(w, "right", v1alpha1.RequestRestart)
	right.Spec.Precondition = &v1alpha1.RequestPrecondition{ContainerID: before["a"], Revision: w.Node().Labels[v1alpha1.LabelRevision]}
	right.Spec.TerminationGracePeriodSeconds, right.Spec.TTLSecondsAfterFinished = new(int64(9)), new(int32(0))
	awaitRequest(t, alice, right, v1alpha1.RequestSucceeded)
	if right.Spec.RequestedBy != "alice" {
		t.Errorf("requestedBy is %q", right.Spec.RequestedBy)
	}
	kill := w.AwaitTrigger("a", v1alpha1.TriggerRestartRequested)
	checkKill(t, kill, v1alpha1.KillRecord{
		Trigger: v1alpha1.TriggerRestartRequested, Message: "Container a restart requested, will be restarted: KillRequest right: leaks memory",
		Outcome: v1alpha1.KillOutcomeGraceful, Grace: grace(9, v1alpha1.GraceSourceOverride),
	})
	if kill.RequestedBy != "alice" || !strings.Contains(kill.Summary, "restart requested by alice (KillRequest right: leaks memory)") {
		t.Errorf("requested by %q: %q", kill.RequestedBy, kill.Summary)
	}
	nw := w.Await("nothing is asked any more", func(nw *v1alpha1.NodeWorkload) bool {
		return len(nw.Spec.Requests)+len(nw.Status.Requests) == 0 && ids(nw)["a"] != ""
	})
	if after := ids(nw); after["a"] == before["a"] || after["b"] != before["b"] || len(nw.Status.Kills) != 1 {
		t.Errorf("containers %v, were %v; kills %+v", after, before, nw.Status.Kills)
	}
	gone := func() bool {
		return apierrors.IsNotFound(env.Kube.Get(t.Context(), client.ObjectKeyFromObject(right), &v1alpha1.KillRequest{}))
	}
	for deadline := time.Now().Add(harness.Timeout); !gone(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a finished request is not deleted after its time")
		}
	}
}

// A signal reaches the container, and restarts nothing.
func TestKillRequestSignal(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, twoContainers)
	before := ids(w.AwaitReady())
	kr := request(w, "reload", v1alpha1.RequestSignal)
	kr.Spec.Signal, kr.Spec.Containers, kr.Spec.Nodes = "SIGHUP", nil, v1alpha1.RequestNodes{All: true}
	awaitRequest(t, asAlice(t, w), kr, v1alpha1.RequestSucceeded)
	for _, name := range []string{"a", "b"} {
		w.AwaitFind(name, "signal SIGHUP", 1)
	}
	if now := w.Node(); len(now.Status.Kills) > 0 || ids(now)["a"] != before["a"] || ids(now)["b"] != before["b"] {
		t.Errorf("something was restarted: %+v", now.Status)
	}
}

// A container is stopped and stays so until the request is deleted.
func TestKillRequestStop(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, twoContainers)
	before := ids(w.AwaitReady())
	alice := asAlice(t, w)
	kr := request(w, "hold", v1alpha1.RequestStop)
	awaitRequest(t, alice, kr, v1alpha1.RequestHeld)
	kill := w.AwaitTrigger("a", v1alpha1.TriggerStopRequested)
	checkKill(t, kill, v1alpha1.KillRecord{
		Trigger: v1alpha1.TriggerStopRequested, Message: "Container a stop requested: KillRequest hold: leaks memory",
		Outcome: v1alpha1.KillOutcomeGraceful, Grace: grace(20, v1alpha1.GraceSourcePod),
	})
	nw := w.Await("it is held", func(nw *v1alpha1.NodeWorkload) bool {
		return meta.IsStatusConditionTrue(nw.Status.Conditions, v1alpha1.ConditionHeld) && meta.IsStatusConditionFalse(nw.Status.Conditions, v1alpha1.ConditionReady)
	})
	at := slices.IndexFunc(nw.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.Name == "a" })
	if waits := nw.Status.ContainerStatuses[at].State.Waiting; waits == nil || waits.Reason != v1alpha1.ReasonStopRequested || nw.Status.Phase != corev1.PodRunning {
		t.Errorf("phase %s, container %+v", nw.Status.Phase, nw.Status.ContainerStatuses[at])
	}
	if err := alice.Delete(t.Context(), kr); err != nil {
		t.Fatal(err)
	}
	nw = w.Await("it runs again", func(nw *v1alpha1.NodeWorkload) bool {
		return ids(nw)["a"] != "" && meta.IsStatusConditionTrue(nw.Status.Conditions, v1alpha1.ConditionReady)
	})
	if after := ids(nw); after["a"] == before["a"] || after["b"] != before["b"] || meta.FindStatusCondition(nw.Status.Conditions, v1alpha1.ConditionHeld) != nil {
		t.Errorf("containers %v, were %v; conditions %+v", after, before, nw.Status.Conditions)
	}
}
