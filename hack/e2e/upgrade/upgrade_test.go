// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
	"github.com/managedworkload/managedworkload/hack/localstack"
)

// An upgrade of CRDs, rights, manager and shims leaves every container as it is,
// finishes the kills that were under way, and can then change and end everything. So
// does the way back, and another upgrade.
func TestUpgradeRestartsNothing(t *testing.T) {
	all := applyToAll(t)
	workloads := map[string]*harness.Workload{}
	for _, s := range shapes() {
		workloads[s.name] = apply(t, s)
	}
	underWay := killsUnderWay()
	applyAll(t, underWay)
	for _, s := range shapes() {
		s.settle(workloads[s.name])
	}
	for _, k := range underWay {
		k.w.AwaitReady()
	}
	all.AwaitReady()
	beginAll(underWay)

	before, onAll := takeAll(t, workloads), all.take(t)
	upgrade(t)
	wantKept(t, workloads, before, 7)
	all.wantKept(t, onAll, 7)
	for _, k := range underWay {
		k.finished(t, k.w)
	}
	if from.revisions {
		thereAndBack(t, workloads, all)
	}
	changeOne(t, workloads["redefined"], "three")
	all.change(t)
	for _, w := range workloads {
		w.Delete()
	}
	for _, w := range workloads {
		wantEnd(t, w)
	}
}

// wantEnd waits until nothing is left of a workload that was deleted.
func wantEnd(t *testing.T, w *harness.Workload) {
	t.Helper()
	w.AwaitGone()
	if left := take(t, w); len(left.Containers)+len(left.Sandboxes) != 0 {
		t.Errorf("left of %s: %v", w.Namespace, left)
	}
}

// wantKept wants workloads to be as before. A change that restarts nothing, a grace period
// in seconds, shows that manager and shim have each of them.
func wantKept(t *testing.T, workloads map[string]*harness.Workload, before map[string]picture, grace int64) {
	t.Helper()
	generations := map[string]int64{}
	for _, s := range shapes() {
		if w := workloads[s.name]; w != nil && !s.ended {
			generations[s.name] = w.Node().Generation
			w.Change(func(template *corev1.PodTemplateSpec) { template.Spec.TerminationGracePeriodSeconds = ptr.To(grace) })
		}
	}
	for _, s := range shapes() {
		if generation, changed := generations[s.name]; changed {
			workloads[s.name].Await(s.name+" is taken over and as it was", func(nw *v1alpha1.NodeWorkload) bool {
				return nw.Generation > generation && nw.Status.ObservedGeneration == nw.Generation && s.settled(nw)
			})
		}
	}
	for name, w := range workloads {
		if diff := cmp.Diff(before[name], take(t, w)); diff != "" {
			t.Errorf("%s (-before +after):\n%s", name, diff)
		}
	}
}

// apply creates a shape with all of its spec at once.
func apply(t *testing.T, s shape) *harness.Workload {
	t.Helper()
	w := newOnFirst(t)
	mw := &v1alpha1.ManagedWorkload{
		ObjectMeta: metav1.ObjectMeta{Name: w.Name, Namespace: w.Namespace},
		Spec:       v1alpha1.ManagedWorkloadSpec{Template: onFirst(w, s.template), RestartBackoff: s.backoff},
	}
	if err := env.Kube.Create(t.Context(), mw); err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	return w
}

// picture is what an upgrade may not change.
type picture struct {
	// Containers and Sandboxes are those of the runtime that stay: state by ID.
	Containers, Sandboxes map[string]string
	// PIDs are those of the running containers.
	PIDs map[string]int
	// Journals are what the containers wrote: starts, hooks, signals.
	Journals map[string][]string

	UID                string
	Phase              corev1.PodPhase
	Ready              string
	Restarts           int32
	KillCount          int64
	PodIPs             []string
	Init, Main         []corev1.ContainerStatus
	Kills              []v1alpha1.KillRecord
	Reason, Message, Q string
}

// notCollected leaves dead containers out that garbage collection takes at any time: all but the
// newest of each name.
func notCollected(all []*runtimeapi.Container) []*runtimeapi.Container {
	newest := map[string]int64{}
	for _, c := range all {
		if c.GetState() == runtimeapi.ContainerState_CONTAINER_EXITED {
			name := c.GetMetadata().GetName()
			newest[name] = max(newest[name], c.GetCreatedAt())
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(c *runtimeapi.Container) bool {
		return c.GetState() == runtimeapi.ContainerState_CONTAINER_EXITED && c.GetCreatedAt() < newest[c.GetMetadata().GetName()]
	})
}

func takeAll(t *testing.T, workloads map[string]*harness.Workload) map[string]picture {
	t.Helper()
	pictures := map[string]picture{}
	for name, w := range workloads {
		pictures[name] = take(t, w)
	}
	return pictures
}

func take(t *testing.T, w *harness.Workload) picture {
	t.Helper()
	return takeOn(t, w, env.Stack.Node)
}

func takeOn(t *testing.T, w *harness.Workload, n *localstack.Node) picture {
	t.Helper()
	w = w.On(n)
	p := picture{Containers: map[string]string{}, Sandboxes: map[string]string{}, Journals: map[string][]string{}}
	cri, err := n.CRI()
	if err != nil {
		t.Fatal(err)
	}
	defer cri.Close() //nolint:errcheck // Only a connection.
	labels := map[string]string{"io.kubernetes.pod.namespace": w.Namespace}
	containers, err := cri.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{LabelSelector: labels}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range notCollected(containers.GetContainers()) {
		p.Containers[c.GetMetadata().GetName()+" "+c.GetId()] = c.GetState().String()
	}
	sandboxes, err := cri.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{LabelSelector: labels}})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sandboxes.GetItems() {
		p.Sandboxes[s.GetId()] = s.GetState().String()
	}
	nw, err := w.FindNode(t.Context())
	if err != nil {
		return p // deleted
	}
	p.PIDs = w.Processes()
	for _, name := range []string{"first", "second", "main", "other", n.NodeName()} {
		p.Journals[name] = harness.Texts(w.Journal(name))
	}
	s := nw.Status
	p.UID, p.Phase, p.Ready, p.Restarts, p.KillCount, p.PodIPs = string(nw.UID), s.Phase, s.Ready, s.Restarts, s.KillCount, s.PodIPs
	p.Init, p.Main, p.Kills, p.Reason, p.Message, p.Q = s.InitContainerStatuses, s.ContainerStatuses, s.Kills, s.Reason, s.Message, string(s.QOSClass)
	return p
}

// changeOne has the shim kill and restart a container that another one created, and no
// other.
func changeOne(t *testing.T, w *harness.Workload, value string) {
	t.Helper()
	before := take(t, w)
	w.Change(func(template *corev1.PodTemplateSpec) {
		template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "CHANGE", Value: value}}
	})
	w.Await("the changed container has restarted", func(nw *v1alpha1.NodeWorkload) bool {
		return nw.Status.Restarts == before.Restarts+1 && nw.Status.Ready == "2/2"
	})
	after := take(t, w)
	if diff := cmp.Diff(before.Journals["other"], after.Journals["other"]); diff != "" || after.KillCount != before.KillCount+1 {
		t.Errorf("%d kills instead of one; the unchanged container saw (-before +after):\n%s", after.KillCount-before.KillCount, diff)
	}
	last := after.Kills[len(after.Kills)-1]
	if first := after.Kills[0]; first.StartTime.After(last.StartTime.Time) {
		last = first
	}
	if last.Trigger != v1alpha1.TriggerDefinitionChanged || last.Outcome != v1alpha1.KillOutcomeGraceful {
		t.Errorf("the kill: %+v", last)
	}
}
