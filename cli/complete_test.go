// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// completed returns the completions that the plugin gives kubectl.
func completed(t *testing.T, args ...string) []string {
	t.Helper()
	var out, errOut bytes.Buffer
	code := New(append([]string{"/usr/local/bin/kubectl_complete-mw"}, args...), "v0", genericiooptions.IOStreams{Out: &out, ErrOut: &errOut}).Run(t.Context())
	if code != ExitOK {
		t.Fatalf("exit code %d: %s", code, errOut.String())
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	return lines[:len(lines)-1] // the last one is a directive
}

func TestCompletion(t *testing.T) {
	ns := newNamespace(t)
	web(t, ns, "app:v1")
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
