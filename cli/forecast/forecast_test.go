// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/internal/revision"
)

var now = time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC)

// podTemplate is a template with a main container and a sidecar.
func podTemplate(image string) corev1.PodTemplateSpec {
	t := corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "side", Image: "side:v1", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}},
		Containers: []corev1.Container{{
			Name: "app", Image: image,
			Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 1}}},
		}},
	}}
	template.SetDefaults(&t)
	return t
}

// fleet is a workload that runs on n1 to n4.
func fleet() *Input {
	runs := podTemplate("app:v1")
	in := &Input{Now: now, After: &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop"}}}
	in.After.Spec.Template = runs
	in.Revisions = []v1alpha1.ManagedWorkloadRevision{numbered(runs, 1)}
	for i := range 4 {
		name := fmt.Sprintf("n%d", i+1)
		in.Nodes = append(in.Nodes, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": name}}})
		in.NodeWorkloads = append(in.NodeWorkloads, nodeWorkload(name, runs))
	}
	return in
}

func numbered(t corev1.PodTemplateSpec, number int64) v1alpha1.ManagedWorkloadRevision {
	return v1alpha1.ManagedWorkloadRevision{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.LabelRevision: template.Hash(&t)}},
		Spec:       v1alpha1.ManagedWorkloadRevisionSpec{Revision: number, Template: t, RolledOut: number == 1},
	}
}

func nodeWorkload(node string, t corev1.PodTemplateSpec) v1alpha1.NodeWorkload {
	hash := template.Hash(&t)
	return v1alpha1.NodeWorkload{
		ObjectMeta: metav1.ObjectMeta{Name: "web-" + node, Namespace: "shop", Generation: 1, Labels: map[string]string{v1alpha1.LabelRevision: hash}},
		Spec:       v1alpha1.NodeWorkloadSpec{NodeName: node, Template: t},
		Status: v1alpha1.NodeWorkloadStatus{
			ObservedGeneration: 1, TemplateHash: hash, Phase: corev1.PodRunning,
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}},
		},
	}
}

// short is a forecast in a few lines.
func short(f *Forecast) string {
	var b strings.Builder
	line := func(what string, changes []NodeChange) {
		if len(changes) == 0 {
			return
		}
		fmt.Fprint(&b, what, ":")
		for _, c := range changes {
			fmt.Fprint(&b, " ", c.Node)
			for _, k := range c.Kills {
				fmt.Fprintf(&b, " [%s %s %s %ds %s %s]", k.Container, k.Trigger, strings.Join(k.Changed, ","), k.GraceSeconds, k.GraceSource, k.PreStop)
			}
		}
		fmt.Fprintln(&b)
	}
	line("end", f.Ends)
	for _, batch := range f.Batches {
		line("batch", batch)
	}
	for _, w := range f.Waiting {
		fmt.Fprintf(&b, "%s waits: %s\n", w.Node, w.Reason)
	}
	return b.String()
}

func TestCompute(t *testing.T) {
	const killed = "[app DefinitionChanged image 30s Pod sleep]"
	image := func(in *Input) { in.After.Spec.Template = podTemplate("app:v2") }
	rolling := func(in *Input, r v1alpha1.RollingUpdate) {
		in.After.Spec.UpdateStrategy = &v1alpha1.UpdateStrategy{RollingUpdate: &r}
	}
	condition := func(in *Input, node int, kind, reason string) {
		st := &in.NodeWorkloads[node].Status
		st.Conditions = slices.DeleteFunc(st.Conditions, func(c metav1.Condition) bool { return c.Type == kind })
		st.Conditions = append(st.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason})
	}
	// requested has two nodes, which may be unavailable at once, and restarts the containers of the first.
	requested := func(in *Input, phase v1alpha1.RequestPhase) {
		in.Nodes, in.NodeWorkloads = in.Nodes[:2], in.NodeWorkloads[:2]
		in.NodeWorkloads[0].Spec.Requests = []v1alpha1.NodeRequest{{ID: "1", Name: "again", Action: v1alpha1.RequestRestart}}
		in.NodeWorkloads[0].Status.Requests = []v1alpha1.NodeRequestStatus{{ID: "1", Phase: phase}}
		rolling(in, v1alpha1.RollingUpdate{MaxUnavailable: ptr.To(intstr.FromInt32(2))})
	}
	tests := map[string]struct {
		edit func(*Input)
		want string
	}{
		"nothing":    {edit: func(*Input) {}},
		"one by one": {edit: image, want: "batch: n? K\nbatch: n? K\nbatch: n? K\nbatch: n? K\n"},
		"two at once": {edit: func(in *Input) {
			image(in)
			rolling(in, v1alpha1.RollingUpdate{MaxUnavailable: ptr.To(intstr.FromInt32(2))})
		}, want: "batch: n? K n? K\nbatch: n? K n? K\n"},
		"all at once": {edit: func(in *Input) {
			image(in)
			rolling(in, v1alpha1.RollingUpdate{MaxUnavailable: ptr.To(intstr.FromString("100%"))})
		}, want: "batch: n1 K n2 K n3 K n4 K\n"},
		"without kill": {edit: func(in *Input) { in.After.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](9) }, want: "batch: n?\nbatch: n?\nbatch: n?\nbatch: n?\n"},
		"paused": {
			edit: func(in *Input) { image(in); in.After.Spec.Paused = true },
			want: "n1 waits: Paused\nn2 waits: Paused\nn3 waits: Paused\nn4 waits: Paused\n",
		},
		"canary": {
			edit: func(in *Input) {
				image(in)
				rolling(in, v1alpha1.RollingUpdate{NodeSelector: map[string]string{"zone": "n2"}})
			},
			want: "batch: n2 K\nn1 waits: NodeSelector\nn3 waits: NodeSelector\nn4 waits: NodeSelector\n",
		},
		"one is not ready, it goes first and blocks no other": {
			edit: func(in *Input) { image(in); condition(in, 2, v1alpha1.ConditionReady, "ContainersNotReady") },
			want: "batch: n3 K\nbatch: n? K\nbatch: n? K\nbatch: n? K\n",
		},
		"a container that crashed is not killed": {
			edit: func(in *Input) {
				image(in)
				in.Nodes, in.NodeWorkloads = in.Nodes[:1], in.NodeWorkloads[:1]
				condition(in, 0, v1alpha1.ConditionReady, "ContainersNotReady")
				in.NodeWorkloads[0].Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}}
			},
			want: "batch: n1\n",
		},
		"one is away": {
			edit: func(in *Input) {
				image(in)
				in.NodeWorkloads, in.Nodes = in.NodeWorkloads[:2], in.Nodes[:2]
				condition(in, 0, v1alpha1.ConditionShimResponding, v1alpha1.ReasonLeaseExpired)
			},
			want: "batch: n2 K\nn1 waits: ShimNotResponding\n",
		},
		"a node that does not match any more": {
			edit: func(in *Input) {
				in.After.Spec.Template.Spec.NodeSelector = map[string]string{"zone": "n1"}
				in.Nodes, in.NodeWorkloads = in.Nodes[:2], in.NodeWorkloads[:2]
			},
			want: "end: n2 [side Termination  30s Pod ] [app Termination  30s Pod sleep]\nbatch: n1\n",
		},
		"a new node": {
			edit: func(in *Input) { in.Nodes, in.NodeWorkloads = in.Nodes[:2], in.NodeWorkloads[:1] },
			want: "batch: n2\n",
		},
		"a new node without a shim": {
			edit: func(in *Input) {
				image(in)
				in.Nodes, in.NodeWorkloads = in.Nodes[:2], in.NodeWorkloads[:1]
				in.Shims = map[string]bool{"n1": true}
			},
			want: "batch: n1 K\nn2 waits: ShimNotFound\n",
		},
		"back from an image that no node has": {
			edit: func(in *Input) {
				bad := podTemplate("app:bad")
				in.Revisions = append(in.Revisions, numbered(bad, 2))
				runs := in.NodeWorkloads[0].Status.TemplateHash
				in.NodeWorkloads[0] = nodeWorkload("n1", bad)
				in.NodeWorkloads[0].Status.TemplateHash = runs
			},
			want: "batch: n1\n",
		},
		"edited by hand": {
			edit: func(in *Input) {
				in.Nodes, in.NodeWorkloads = in.Nodes[:1], in.NodeWorkloads[:1]
				nw := &in.NodeWorkloads[0]
				nw.Spec.Template = podTemplate("app:edited")
				nw.Status.TemplateHash = template.Hash(&nw.Spec.Template)
			},
			want: "batch: n1 K\n",
		},
		"a new node while paused gets what was rolled out before": {
			edit: func(in *Input) {
				image(in)
				in.Nodes, in.NodeWorkloads = in.Nodes[:2], in.NodeWorkloads[:1]
				in.After.Spec.Paused = true
			},
			want: "batch: n2\nn1 waits: Paused\nn2 waits: Paused\n",
		},
		"one is being deleted, and gets another": {
			edit: func(in *Input) { image(in); in.NodeWorkloads[0].DeletionTimestamp = &metav1.Time{Time: now} },
			want: "batch: n1\nbatch: n? K\nbatch: n? K\nbatch: n? K\n",
		},
		"one is being deleted where the shim is away": {
			edit: func(in *Input) {
				image(in)
				in.NodeWorkloads, in.Nodes = in.NodeWorkloads[:2], in.Nodes[:2]
				in.NodeWorkloads[0].DeletionTimestamp = &metav1.Time{Time: now}
				condition(in, 0, v1alpha1.ConditionShimResponding, v1alpha1.ReasonLeaseExpired)
			},
			want: "batch: n2 K\nn1 waits: Terminating\n",
		},
		"one that does not match any more is being deleted already": {
			edit: func(in *Input) {
				in.After.Spec.Template.Spec.NodeSelector = map[string]string{"zone": "n1"}
				in.Nodes, in.NodeWorkloads = in.Nodes[:2], in.NodeWorkloads[:2]
				in.NodeWorkloads[1].DeletionTimestamp = &metav1.Time{Time: now}
			},
			want: "batch: n1\n",
		},
		"a requested restart takes up budget": {
			edit: func(in *Input) { image(in); requested(in, v1alpha1.RequestPending) },
			want: "batch: n? K\nbatch: n? K\n",
		},
		"a requested restart uses up the budget, and ends": {
			edit: func(in *Input) {
				image(in)
				requested(in, v1alpha1.RequestPending)
				in.After.Spec.UpdateStrategy = nil
			},
			want: "batch: n? K\nbatch: n? K\n",
		},
		"a requested restart is over": {
			edit: func(in *Input) { image(in); requested(in, v1alpha1.RequestSucceeded) },
			want: "batch: n1 K n2 K\n",
		},
		"another object has the name of a NodeWorkload": {
			edit: func(in *Input) {
				in.Nodes, in.NodeWorkloads = in.Nodes[:2], in.NodeWorkloads[:1]
				in.Taken = map[string]bool{placement.NodeWorkloadName("web", "n2"): true}
			},
			want: "n2 waits: NameConflict\n",
		},
		"nodes unknown": {
			edit: func(in *Input) { image(in); in.Nodes, in.NodeWorkloads = nil, in.NodeWorkloads[:1] },
			want: "batch: n1 K\n",
		},
		"a sidecar, a sandbox": {
			edit: func(in *Input) {
				in.Nodes, in.NodeWorkloads = in.Nodes[:1], in.NodeWorkloads[:1]
				in.After.Spec.Template.Spec.Hostname = "other"
			},
			want: "batch: n1 [side SandboxChanged spec.hostname 30s Pod ] [app SandboxChanged spec.hostname 30s Pod sleep]\n",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			in := fleet()
			tc.edit(in)
			f := Compute(*in)
			got := short(f)
			if strings.Contains(tc.want, "n?") { // the order is that of a hash
				for i := range in.Nodes {
					if n := strings.Count(got, fmt.Sprintf("n%d", i+1)); n != 1 {
						t.Errorf("n%d is there %d times", i+1, n)
					}
					if !strings.Contains(tc.want, fmt.Sprintf("n%d", i+1)) {
						got = strings.ReplaceAll(got, fmt.Sprintf("n%d", i+1), "n?")
					}
				}
			}
			if diff := cmp.Diff(strings.ReplaceAll(tc.want, "K", killed), got); diff != "" {
				t.Errorf("forecast (-want +got):\n%s", diff)
			}
			if want := strings.Count(got, "["); f.Kills != want {
				t.Errorf("%d kills are counted, want %d", f.Kills, want)
			}
		})
	}
}

// What admission adds to both templates kills nothing.
func TestAdmitted(t *testing.T) {
	in := fleet()
	admitted := in.Revisions[0].Spec.Template.DeepCopy()
	admitted.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "INJECTED", Value: "1"}}
	spec, err := revision.Spec(&in.Revisions[0].Spec.Template, admitted)
	if err != nil {
		t.Fatal(err)
	}
	spec.Revision, spec.RolledOut = 1, true
	in.Revisions[0].Spec = spec
	hash := in.Revisions[0].Labels[v1alpha1.LabelRevision]
	for i := range in.NodeWorkloads {
		in.NodeWorkloads[i] = nodeWorkload(in.Nodes[i].Name, *admitted)
		in.NodeWorkloads[i].Labels[v1alpha1.LabelRevision] = hash
	}
	if f := Compute(*in); f.Kills != 0 || len(f.Batches) != 0 {
		t.Errorf("forecast without a change:\n%s", short(f))
	}
	in.After.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](3)
	if f := Compute(*in); f.Kills != 0 || len(f.Batches) != 4 || len(f.Notes) != 1 {
		t.Errorf("notes %q, forecast of another grace period:\n%s", f.Notes, short(f))
	}

	// Where it is known what admission makes of the changed template, nothing is guessed.
	in.Admitted = in.After.Spec.Template.DeepCopy()
	in.Admitted.Spec.Containers[0].Env = admitted.Spec.Containers[0].Env
	if f := Compute(*in); f.Kills != 0 || len(f.Batches) != 4 || len(f.Notes) != 0 {
		t.Errorf("notes %q, forecast of another grace period, admitted:\n%s", f.Notes, short(f))
	}
	in.Admitted.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "kube-api-access", MountPath: "/token"}}
	if f := Compute(*in); f.Kills != 4 || len(f.Notes) != 0 {
		t.Errorf("notes %q, forecast with a token that is new:\n%s", f.Notes, short(f))
	}
}

// Where it is not known what admission makes of a change, and the user's template of a revision
// cannot be read, what runs is compared.
func TestForecastWithADamagedPatch(t *testing.T) {
	in := fleet()
	in.Revisions[0].Spec.UserPatch = `[{"op":"remove","path":"/no/such"}]`
	in.After.Spec.Template = podTemplate("app:v2")
	f := Compute(*in)
	if f.Kills != 4 || len(f.Notes) != 1 || !strings.Contains(f.Notes[0], "What the user wrote in revision 1 cannot be read") {
		t.Errorf("notes %q, forecast:\n%s", f.Notes, short(f))
	}
}

// What a KillRequest keeps stopped is said, by node; one that restarts, or is a dry run, keeps nothing.
func TestHoldsAreNoted(t *testing.T) {
	in := fleet()
	hold := v1alpha1.NodeRequest{Name: "hold", Action: v1alpha1.RequestStop}
	in.NodeWorkloads[1].Spec.Requests = []v1alpha1.NodeRequest{hold}
	in.NodeWorkloads[0].Spec.Requests = []v1alpha1.NodeRequest{
		{Name: "dry", Action: v1alpha1.RequestStop, DryRun: true}, {Name: "again", Action: v1alpha1.RequestRestart}, hold,
	}
	f := Compute(*in)
	if len(f.Notes) != 1 || !strings.Contains(f.Notes[0], "KillRequest hold keeps containers stopped on 2 nodes (n1, n2)") {
		t.Errorf("notes %q", f.Notes)
	}
}
