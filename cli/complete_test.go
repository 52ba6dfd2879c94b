// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// completed returns the completions that the plugin gives kubectl. None lets the shell offer files.
func completed(t *testing.T, args ...string) []string {
	t.Helper()
	var out, errOut bytes.Buffer
	code := New(append([]string{"/usr/local/bin/kubectl_complete-mw"}, args...), "v0", genericiooptions.IOStreams{Out: &out, ErrOut: &errOut}).Run(t.Context())
	if code != ExitOK {
		t.Fatalf("exit code %d: %s", code, errOut.String())
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	last := len(lines) - 1
	directive, err := strconv.Atoi(strings.TrimPrefix(lines[last], ":"))
	if err != nil || cobra.ShellCompDirective(directive)&cobra.ShellCompDirectiveNoFileComp == 0 {
		t.Errorf("the directive %q lets the shell offer files", lines[last])
	}
	return lines[:last]
}

func TestCompletion(t *testing.T) {
	ns := newNamespace(t)
	mw := web(t, ns, "app:v1")
	nw := nodeWorkloadOf(t, mw, "n1", revisionOf(t, mw, 1, "app:v1")).Name
	labels := map[string]string{"app": "fluentd"}
	ds := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "fluentd"},
		Spec:       appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: templateOf("fluentd:v1")},
	}
	ds.Spec.Template.Labels = labels
	create(t, ds)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "completed-" + ns}}
	create(t, node)
	t.Cleanup(func() {
		if err := api.Delete(context.WithoutCancel(t.Context()), node); err != nil {
			t.Error(err)
		}
	})
	create(t, &v1alpha1.KillRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "stop-web"},
		Spec:       v1alpha1.KillRequestSpec{WorkloadName: "web", Action: v1alpha1.RequestStop, Nodes: v1alpha1.RequestNodes{All: true}},
	})
	tests := map[string]struct {
		args, want []string
	}{
		"a workload":              {[]string{"why", ""}, []string{"web"}},
		"no workload":             {[]string{"why", "x"}, []string{}},
		"nothing behind it":       {[]string{"why", "web", ""}, []string{}},
		"a workload of a group":   {[]string{"rollout", "undo", "w"}, []string{"web"}},
		"a workload to look at":   {[]string{"top", "workload", ""}, []string{"web"}},
		"a workload, typed":       {[]string{"why", "mw/"}, []string{"mw/web"}},
		"typed in full":           {[]string{"rollout", "status", "managedworkload/w"}, []string{"managedworkload/web"}},
		"to be killed, typed":     {[]string{"kill", "mw/"}, []string{"mw/web"}},
		"no workload, typed":      {[]string{"why", "mw/x"}, []string{}},
		"a NodeWorkload":          {[]string{"why", "nw/"}, []string{"nw/" + nw}},
		"a NodeWorkload's lane":   {[]string{"timeline", "nodeworkload/" + nw[:4]}, []string{"nodeworkload/" + nw}},
		"no NodeWorkload here":    {[]string{"rollout", "status", "nw/"}, []string{}},
		"of no type":              {[]string{"why", "pods/"}, []string{}},
		"what is converted":       {[]string{"convert", ""}, []string{"daemonset/"}},
		"a DaemonSet":             {[]string{"convert", "daemonset/"}, []string{"daemonset/fluentd"}},
		"a DaemonSet, for short":  {[]string{"convert", "ds/fl"}, []string{"ds/fluentd"}},
		"one DaemonSet only":      {[]string{"convert", "ds/fluentd", ""}, []string{}},
		"a node":                  {[]string{"drain", "completed-"}, []string{node.Name}},
		"a node of a flag":        {[]string{"kill", "web", "--node", "completed-"}, []string{node.Name}},
		"a container":             {[]string{"kill", "web", "--container", ""}, []string{"app"}},
		"no container of nothing": {[]string{"kill", "--container", ""}, []string{}},
		"an action":               {[]string{"kill", "web", "--action", ""}, []string{"restart", "signal", "stop"}},
		"a request":               {[]string{"release", ""}, []string{"stop-web"}},
		"a format":                {[]string{"timeline", "web", "-o", ""}, []string{"json", "yaml", "html"}},
		"a namespace":             {[]string{"why", "-n", ns}, []string{ns}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := completed(t, append([]string{"--kubeconfig", kubeconfig, "-n", ns}, tt.args...)...)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("offered (-want +got):\n%s", diff)
			}
		})
	}
}

// The names of a kubeconfig are offered as kubectl offers them; no API server is asked.
func TestCompletionOfTheKubeconfig(t *testing.T) {
	config := clientcmdapi.NewConfig()
	for _, name := range []string{"prod", "test", "personal"} {
		config.Contexts["at-"+name] = &clientcmdapi.Context{Cluster: "cluster-" + name, AuthInfo: "user-" + name}
		config.Clusters["cluster-"+name] = &clientcmdapi.Cluster{Server: "https://nowhere.invalid"}
		config.AuthInfos["user-"+name] = &clientcmdapi.AuthInfo{}
	}
	file := filepath.Join(t.TempDir(), "config")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ args, want []string }{
		"contexts":                {[]string{"--context", ""}, []string{"at-personal", "at-prod", "at-test"}},
		"contexts of a command":   {[]string{"why", "web", "--context", "at-p"}, []string{"at-personal", "at-prod"}},
		"clusters":                {[]string{"--cluster", ""}, []string{"cluster-personal", "cluster-prod", "cluster-test"}},
		"users of another choice": {[]string{"--context", "at-test", "--user", "user-p"}, []string{"user-personal", "user-prod"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, completed(t, append([]string{"--kubeconfig", file}, tt.args...)...)); diff != "" {
				t.Errorf("offered (-want +got):\n%s", diff)
			}
		})
	}
}

// The script that a shell reads is for the word that the plugin is called by.
func TestCompletionScript(t *testing.T) {
	for program, word := range map[string]string{"kubectl-mw": "kubectl-mw", "/bin/kubectl-managedworkload": "kubectl-managedworkload"} {
		var out bytes.Buffer
		code := New([]string{program, "completion", "bash"}, "v0", genericiooptions.IOStreams{Out: &out, ErrOut: &out}).Run(t.Context())
		if code != ExitOK || !strings.Contains(out.String(), " "+word+"\n") {
			t.Errorf("exit code %d, and no completion of %s is registered", code, word)
		}
	}
}
