// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
	"github.com/managedworkload/managedworkload/hack/localstack"
)

// An upgrade of CRDs, rights, manager and shim leaves every container as it is,
// finishes the kills that were under way, and can then change and end everything.
func TestUpgradeRestartsNothing(t *testing.T) {
	all := shapes()
	workloads := map[string]*harness.Workload{}
	for _, s := range all {
		workloads[s.name] = apply(t, s)
	}
	var underWay []*killUnderWay
	for _, k := range killsUnderWay() {
		k.w = env.Apply(t, k.template)
		underWay = append(underWay, k)
	}
	for _, s := range all {
		s.settle(workloads[s.name])
	}
	for _, k := range underWay {
		k.w.AwaitReady()
	}
	for _, k := range underWay {
		k.begin(k.w)
		k.w.AwaitFind("main", k.sign, 1)
		k.w.AwaitPhase("main", k.phase)
	}

	before := map[string]picture{}
	for name, w := range workloads {
		before[name] = take(t, w)
	}
	upgrade(t)
	// A change that restarts nothing shows that the new manager and the new shim
	// have each of them.
	for _, s := range all {
		if !s.ended {
			takenOver(t, s, workloads[s.name])
		}
	}
	for name, w := range workloads {
		if diff := cmp.Diff(before[name], take(t, w)); diff != "" {
			t.Errorf("%s (-before +after the upgrade):\n%s", name, diff)
		}
	}
	for _, k := range underWay {
		k.finished(t, k.w)
	}
	changeOne(t, workloads["redefined"])
	for _, w := range workloads {
		w.Delete()
	}
	for _, w := range workloads {
		w.AwaitGone()
		if left := take(t, w); len(left.Containers)+len(left.Sandboxes) != 0 {
			t.Errorf("left of %s: %v", w.Namespace, left)
		}
	}
}

// apply creates a shape with all of its spec at once.
func apply(t *testing.T, s shape) *harness.Workload {
	t.Helper()
	w := env.New(t)
	mw := &v1alpha1.ManagedWorkload{
		ObjectMeta: metav1.ObjectMeta{Name: w.Name, Namespace: w.Namespace},
		Spec:       v1alpha1.ManagedWorkloadSpec{Template: w.Parse(s.template), RestartBackoff: s.backoff},
	}
	if err := env.Kube.Create(t.Context(), mw); err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	return w
}

// upgrade is what docs/operations.md says: the new configuration is applied, and
// the programs are replaced.
func upgrade(t *testing.T) {
	t.Helper()
	began := time.Now()
	for _, c := range []interface{ Running() bool }{env.Stack.Manager, env.Stack.Shim} {
		if !c.Running() {
			t.Fatal("the older manager or shim has ended by itself")
		}
	}
	for _, stop := range []error{env.Stack.Manager.Stop(t.Context()), env.Stack.Shim.Stop(t.Context())} {
		if stop != nil {
			t.Fatal(stop)
		}
	}
	if err := env.Stack.ApplyConfig(t.Context(), filepath.Join(root, "config", "default")); err != nil {
		t.Fatal(err)
	}
	removeRest(t)
	if err := os.Rename(newProgram, program); err != nil {
		t.Fatal(err)
	}
	if err := env.Stack.Manager.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := env.Stack.Shim.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("the upgrade took %s", time.Since(began).Round(100*time.Millisecond))
}

// removeRest removes what kubectl apply does not, by the commands of docs/operations.md.
func removeRest(t *testing.T) {
	t.Helper()
	docs, err := os.ReadFile(filepath.Join(root, "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, docs, _ = bytes.Cut(docs, []byte("\n## Upgrades\n"))
	docs, _, _ = bytes.Cut(docs, []byte("\n## "))
	kubectl := func(args ...string) string {
		t.Helper()
		out, err := env.Stack.Kubectl(t.Context(), args...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	removed := ""
	for line := range strings.Lines(string(docs)) {
		if command, ok := strings.CutPrefix(strings.TrimSpace(line), "kubectl "); ok {
			removed += kubectl(strings.Fields(command)...)
		}
	}
	for _, namespace := range []string{corev1.NamespaceNodeLease, localstack.SystemNamespace} {
		for _, kind := range []string{"role", "rolebinding"} {
			if want := kind + `.rbac.authorization.k8s.io "managedworkload-shim-lease" deleted from ` + namespace; !strings.Contains(removed, want) {
				t.Errorf("the documented commands say %q, want %q", removed, want)
			}
		}
	}
	config, err := filepath.Abs(filepath.Join(root, "config", "default"))
	if err != nil {
		t.Fatal(err)
	}
	known := kubectl("get", "-k", config, "-o=name")
	const kinds = "roles,rolebindings,clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings"
	for name := range strings.Lines(kubectl("get", kinds, "-A", "-o=name")) {
		ofComponent := strings.Contains(name, "standalone-shim")
		if strings.Contains(name, "managedworkload") && !ofComponent && !strings.Contains(known, name) {
			t.Errorf("the earlier configuration left %s", name)
		}
	}
}

// picture is what an upgrade may not change.
type picture struct {
	// Containers and Sandboxes are those of the runtime: state by ID.
	Containers, Sandboxes map[string]string
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

func take(t *testing.T, w *harness.Workload) picture {
	t.Helper()
	p := picture{Containers: map[string]string{}, Sandboxes: map[string]string{}, Journals: map[string][]string{}}
	cri, err := env.Stack.CRI()
	if err != nil {
		t.Fatal(err)
	}
	defer cri.Close() //nolint:errcheck // Only a connection.
	labels := map[string]string{"io.kubernetes.pod.namespace": w.Namespace}
	containers, err := cri.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{LabelSelector: labels}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range containers.GetContainers() {
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
	for _, name := range []string{"first", "second", "main", "other"} {
		p.Journals[name] = harness.Texts(w.Journal(name))
	}
	s := nw.Status
	p.UID, p.Phase, p.Ready, p.Restarts, p.KillCount, p.PodIPs = string(nw.UID), s.Phase, s.Ready, s.Restarts, s.KillCount, s.PodIPs
	p.Init, p.Main, p.Kills, p.Reason, p.Message, p.Q = s.InitContainerStatuses, s.ContainerStatuses, s.Kills, s.Reason, s.Message, string(s.QOSClass)
	return p
}

// takenOver changes what restarts nothing, and waits until the shim has said so.
func takenOver(t *testing.T, s shape, w *harness.Workload) {
	t.Helper()
	before := w.Node().Generation
	w.Change(func(template *corev1.PodTemplateSpec) { template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](7) })
	w.Await(s.name+" is taken over and as it was", func(nw *v1alpha1.NodeWorkload) bool {
		return nw.Generation > before && nw.Status.ObservedGeneration == nw.Generation && s.settled(nw)
	})
}

// changeOne has the new shim kill and restart a container that the older one
// created, and no other.
func changeOne(t *testing.T, w *harness.Workload) {
	t.Helper()
	before := take(t, w)
	w.Change(func(template *corev1.PodTemplateSpec) {
		template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "CHANGE", Value: "two"}}
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

// killUnderWay is a kill that the older shim has begun when the upgrade comes.
type killUnderWay struct {
	template string
	begin    func(*harness.Workload)
	sign     string // what the journal has once it began
	phase    v1alpha1.KillPhase
	finished func(*testing.T, *harness.Workload)
	w        *harness.Workload
}

func killsUnderWay() []*killUnderWay {
	const head = "terminationGracePeriodSeconds: 30\ncontainers:\n- name: main\n  image: managedworkload.dev/testprogram:v1\n" +
		"  volumeMounts: [{name: dir, mountPath: /dir}]\n"
	const tail = "volumes: [{name: dir, hostPath: {path: $DIR}}]"
	const hook = "  lifecycle: {preStop: {exec: {command: [/testprogram, seq, append, /dir/main, preStop, \",\", sleep, 20s]}}}\n"
	remove := func(w *harness.Workload) { w.Delete() }
	return []*killUnderWay{
		{ // A deletion in the hook: the hook is cut off with its shim and runs again.
			template: head + "  args: [serve, --log-file=/dir/main]\n" + hook + tail,
			begin:    remove, sign: "preStop", phase: v1alpha1.KillPhasePreStop,
			finished: func(t *testing.T, w *harness.Workload) {
				w.AwaitGone()
				wantJournal(t, w, "started", "preStop", "preStop", "signal SIGTERM", "stopped code=0")
			},
		},
		{ // A deletion in StopContainer: no second signal, and no SIGKILL before its time.
			template: head + "  args: [serve, --log-file=/dir/main, --on-term=delay:20s]\n" + tail,
			begin:    remove, sign: "signal SIGTERM", phase: v1alpha1.KillPhaseStopping,
			finished: func(t *testing.T, w *harness.Workload) {
				w.AwaitGone()
				wantJournal(t, w, "started", "signal SIGTERM", "stopped code=0")
			},
		},
		{ // A changed definition in the hook: killed once, started once.
			template: head + "  args: [serve, --log-file=/dir/main]\n" + hook + tail,
			begin: func(w *harness.Workload) {
				w.Change(func(template *corev1.PodTemplateSpec) {
					template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "CHANGE", Value: "one"}}
				})
			},
			sign: "preStop", phase: v1alpha1.KillPhasePreStop,
			finished: func(t *testing.T, w *harness.Workload) {
				kill := w.AwaitTrigger("main", v1alpha1.TriggerDefinitionChanged)
				nw := w.AwaitReady()
				wantJournal(t, w, "started", "preStop", "preStop", "signal SIGTERM", "stopped code=0", "started")
				if kill.Outcome != v1alpha1.KillOutcomeGraceful || nw.Status.KillCount != 1 || nw.Status.Restarts != 1 {
					t.Errorf("%d kills, %d restarts, the kill: %+v", nw.Status.KillCount, nw.Status.Restarts, kill)
				}
			},
		},
	}
}

func wantJournal(t *testing.T, w *harness.Workload, want ...string) {
	t.Helper()
	w.AwaitFind("main", "started", strings.Count(strings.Join(want, " "), "started"))
	var got []string
	for _, text := range harness.Texts(w.Journal("main")) {
		text, _, _ := strings.Cut(text, " pid=")
		got = append(got, text)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s saw (-want +got):\n%s", w.Namespace, diff)
	}
}
