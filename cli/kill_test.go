// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/cli/terminal"
)

// What does not say which nodes, or does not fit together, asks for nothing.
func TestKillRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ args, want string }{
		"no nodes":                 {"--action=restart", "choose nodes with --node or --selector, or all of them with --all"},
		"an empty selector":        {"--action=restart --selector=", "choose nodes"},
		"all and one":              {"--action=restart --all --node=a", "either --all"},
		"no action":                {"--all", "--action must be restart, signal or stop"},
		"another action":           {"--action=term --all", "--action must be restart, signal or stop"},
		"a signal for a restart":   {"--action=restart --all --signal=HUP", "--signal must be given with --action=signal"},
		"no signal":                {"--action=signal --all", "--signal must be given with --action=signal"},
		"a stop within the budget": {"--action=stop --all --roll-out", "--roll-out must be given with --action=restart"},
		"a deadline of nothing":    {"--action=stop --all --deadline=1ms", "--deadline must be 1s or more"},
		"a timeout of nothing":     {"--action=stop --all --timeout=1m", "--timeout must be given with --wait"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			args := append([]string{"kubectl-mw", "--kubeconfig", "/dev/null", "kill", "web"}, strings.Fields(tc.args)...)
			code := New(args, "v0", genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut}).Run(t.Context())
			if code != ExitError || !strings.Contains(errOut.String(), tc.want) {
				t.Errorf("exit code %d, %q, want %q", code, errOut.String(), tc.want)
			}
		})
	}
}

func toBeKilled() *v1alpha1.ManagedWorkload {
	spec := corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "init"}, {Name: "side", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}},
		Containers:     []corev1.Container{{Name: "app"}},
	}
	return &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}, Spec: v1alpha1.ManagedWorkloadSpec{Template: corev1.PodTemplateSpec{Spec: spec}}}
}

func TestKillAsksForWhatTheFlagsSay(t *testing.T) {
	hour, soon := ptr.To[int32](3600), ptr.To[int64](90)
	for name, tc := range map[string]struct {
		o    killOptions
		want v1alpha1.KillRequestSpec
		err  string
	}{
		"a restart": {
			killOptions{action: "restart", nodes: []string{"a"}, containers: []string{"side"}, reason: "leaks", rollOut: true, grace: 3, deadline: 90 * time.Second, ttl: time.Hour},
			v1alpha1.KillRequestSpec{
				WorkloadName: "web", Nodes: v1alpha1.RequestNodes{Names: []string{"a"}}, Containers: []string{"side"}, Action: v1alpha1.RequestRestart, Reason: "leaks",
				Order: v1alpha1.RequestRollOut, TerminationGracePeriodSeconds: ptr.To[int64](3), ActiveDeadlineSeconds: soon, TTLSecondsAfterFinished: hour,
			}, "",
		},
		"a signal": {
			killOptions{action: "Signal", selector: "zone=a", signal: "hup", grace: -1, ttl: -1},
			v1alpha1.KillRequestSpec{
				WorkloadName: "web", Nodes: v1alpha1.RequestNodes{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"zone": "a"}}},
				Action: v1alpha1.RequestSignal, Signal: "SIGHUP",
			}, "",
		},
		"a dry run waits for no node without end": {
			killOptions{action: "stop", all: true, dryRun: true, grace: -1, ttl: time.Hour},
			v1alpha1.KillRequestSpec{
				WorkloadName: "web", Nodes: v1alpha1.RequestNodes{All: true}, Action: v1alpha1.RequestStop,
				DryRun: true, ActiveDeadlineSeconds: ptr.To[int64](30), TTLSecondsAfterFinished: hour,
			}, "",
		},
		"an init container":  {o: killOptions{action: "restart", all: true, containers: []string{"init"}}, err: `has no container "init"; it has side, app`},
		"a selector of none": {o: killOptions{action: "restart", selector: " "}, err: "that takes --all"},
		"no selector":        {o: killOptions{action: "restart", selector: "=="}, err: "--selector: "},
	} {
		t.Run(name, func(t *testing.T) {
			kr, err := tc.o.request(toBeKilled())
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, kr.Spec, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
			if want := "web-" + strings.ToLower(tc.o.action) + "-"; kr.GenerateName != want || kr.Namespace != "ns" {
				t.Errorf("named %s/%s", kr.Namespace, kr.GenerateName)
			}
		})
	}
	if prefix := killPrefix(strings.Repeat("a.", 100), "restart"); len(prefix) > 58 || !strings.HasSuffix(prefix, "a-restart-") {
		t.Errorf("prefix %q", prefix)
	}
}

// kills is a cluster in memory, whose manager says what came of a request as soon as it is watched.
func kills(t *testing.T, st v1alpha1.KillRequestStatus, objects ...client.Object) *cluster {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	byName := func(o client.Object) []string { return []string{o.GetName()} }
	answer := func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) (watch.Interface, error) {
		w, err := c.Watch(ctx, list, options...)
		made := &v1alpha1.KillRequestList{}
		if err := errors.Join(err, c.List(ctx, made)); err != nil {
			return nil, err
		}
		for i := range made.Items {
			if made.Items[i].Status.Phase != "" {
				continue
			}
			made.Items[i].Status = st
			if err := c.Status().Update(ctx, &made.Items[i]); err != nil {
				return nil, err
			}
		}
		return w, err
	}
	return &cluster{fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.KillRequest{}).
		WithIndex(&v1alpha1.KillRequest{}, "metadata.name", byName).WithInterceptorFuncs(interceptor.Funcs{Watch: answer}).Build(), "ns"}
}

// A script learns by the exit code whether it was done, a person what was done where. Of a dry run
// nothing stays.
func TestKillWaits(t *testing.T) {
	state := func(phase v1alpha1.RequestPhase, message string) []v1alpha1.RequestNodeState {
		return []v1alpha1.RequestNodeState{{NodeName: "a", Phase: phase, Containers: []v1alpha1.RequestContainerState{{Name: "app", Phase: phase, Message: message}}}}
	}
	for name, tc := range map[string]struct {
		o    killOptions
		st   v1alpha1.KillRequestStatus
		no   bool
		want string
		left int
	}{
		"done": {
			killOptions{action: "restart", all: true, wait: true},
			v1alpha1.KillRequestStatus{Phase: v1alpha1.RequestSucceeded, Message: "1 of 1 nodes done", Nodes: 1, DoneNodes: 1, NodeStates: state(v1alpha1.RequestSucceeded, "")},
			false, "Succeeded: 1 of 1 nodes done\nnode a: Succeeded\n  app: Succeeded\n", 1,
		},
		"failed": {
			killOptions{action: "restart", all: true, wait: true},
			v1alpha1.KillRequestStatus{Phase: v1alpha1.RequestFailed, Message: "0 of 1 nodes done", Nodes: 1, FailedNodes: 1, NodeStates: state(v1alpha1.RequestFailed, "it does not run")},
			true, "  app: it does not run\n", 1,
		},
		"held, but not on each node": {
			killOptions{action: "stop", all: true, wait: true},
			v1alpha1.KillRequestStatus{Phase: v1alpha1.RequestHeld, Nodes: 2, DoneNodes: 1, FailedNodes: 1}, true, "kubectl mw release web-stop-", 1,
		},
		"not in time": {
			killOptions{action: "restart", all: true, wait: true, timeout: 10 * time.Millisecond},
			v1alpha1.KillRequestStatus{Phase: v1alpha1.RequestInProgress, Message: "0 of 1 nodes done"}, true, "", 1,
		},
		"a dry run": {
			killOptions{action: "stop", all: true, dryRun: true},
			v1alpha1.KillRequestStatus{Phase: v1alpha1.RequestSucceeded, Message: "dry run: 1 of 1 nodes done", Nodes: 1, NodeStates: state(v1alpha1.RequestSucceeded, "would be killed: StopRequested")},
			false, "Succeeded: dry run: 1 of 1 nodes done\nnode a: Succeeded\n  app: would be killed: StopRequested\n", 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := kills(t, tc.st)
			kr, err := tc.o.request(toBeKilled())
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			err = (&kill{cluster: c, killOptions: &tc.o, request: kr, p: terminal.New(&out), out: &out}).run(t.Context())
			var no errNo
			if errors.As(err, &no) != tc.no || err != nil && !tc.no || !strings.Contains(out.String(), tc.want) {
				t.Errorf("error %v, output %q, want %q", err, out.String(), tc.want)
			}
			left := &v1alpha1.KillRequestList{}
			if err := c.List(t.Context(), left); err != nil || len(left.Items) != tc.left {
				t.Errorf("%d requests are left, want %d (%v)", len(left.Items), tc.left, err)
			}
		})
	}
}

// -o name is what a script hands on, as that of kubectl create.
func TestKillPrintsTheName(t *testing.T) {
	ns := newNamespace(t)
	web(t, ns, "app:v1")
	r := run(t, ns, "", "kill", "web", "--action=stop", "--all", "-o", "name")
	name := strings.TrimSuffix(r.out, "\n")
	if r.code != ExitOK || r.err != "" || !strings.HasPrefix(name, "killrequest.managedworkload.dev/web-stop-") || strings.Contains(name, "\n") {
		t.Fatalf("%+v", r)
	}
	run(t, ns, "", "release", name).want(t, ExitOK, name+" released\n", "")
}

// Only what stops containers is released, and the name of a workload names what does.
func TestRelease(t *testing.T) {
	request := func(name string, action v1alpha1.RequestAction) *v1alpha1.KillRequest {
		return &v1alpha1.KillRequest{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "u"}, Spec: v1alpha1.KillRequestSpec{WorkloadName: "web", Action: action},
		}
	}
	c := kills(t, v1alpha1.KillRequestStatus{}, request("hold", v1alpha1.RequestStop), request("other", v1alpha1.RequestRestart))
	var out bytes.Buffer
	for arg, want := range map[string]string{
		"other": `stops nothing: its action is Restart`, "web": `managedworkload "web" is stopped by hold`, "none": "not found",
	} {
		if err := release(t.Context(), c, arg, terminal.New(&out)); err == nil || !strings.Contains(err.Error(), want) || out.Len() > 0 {
			t.Errorf("release %s: %v, %q, want %q", arg, err, out.String(), want)
		}
	}
	if err := release(t.Context(), c, "kr/hold", terminal.New(&out)); err != nil || out.String() != "killrequest.managedworkload.dev/hold released\n" {
		t.Errorf("%v, %q", err, out.String())
	}
	left := &v1alpha1.KillRequestList{}
	if err := c.List(t.Context(), left); err != nil || len(left.Items) != 1 || left.Items[0].Name != "other" {
		t.Errorf("%+v are left (%v)", left.Items, err)
	}
}
