// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package static

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/localstack"
)

// A change that this node cannot run ends nothing, says why where people look, and leaves room for one that it can.
func TestAChangeThatTheNodeCannotRun(t *testing.T) {
	logs := t.TempDir()
	if err := os.WriteFile(filepath.Join(logs, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	good := manifest("web", "1", logs)
	change := func(old, replacement string) string {
		changed := strings.Replace(good, old, replacement, 1)
		if changed == good {
			t.Fatalf("the file has no %q", old)
		}
		return changed
	}
	security := func(context string) string {
		return change("        args:", "        securityContext: "+context+"\n        args:")
	}
	port := func(file string) string {
		return strings.Replace(file, "        args:", "        ports: [{containerPort: 80, hostPort: 47113}]\n        args:", 1)
	}
	write(t, "other.yaml", port(manifest("other", "other", t.TempDir())))
	awaitReady(t, "other")
	write(t, "web.yaml", good)
	first := awaitReady(t, "1")
	for name, tc := range map[string]struct{ file, says string }{
		"an image that cannot be pulled": {
			change(localstack.ImageV1, "127.0.0.1:1/typo:1"), "container c: image 127.0.0.1:1/typo:1: ErrImagePull: "},
		"an image that is to be there": {
			change(localstack.ImageV1, "127.0.0.1:1/typo:1\n        imagePullPolicy: Never"), "ErrImageNeverPull"},
		"a seccomp profile that is not there": {
			security("{seccompProfile: {type: Localhost, localhostProfile: none.json}}"), "there is no seccomp profile /var/lib/kubelet/seccomp/none.json"},
		"a directory that is not there": {
			change("{path: "+logs+"}", "{path: "+logs+"/none, type: Directory}"), "hostPath type check failed: " + logs + "/none is not a directory"},
		"a subPath through a file": {
			change("{name: dir, mountPath: /dir}", "{name: dir, mountPath: /dir, subPath: file/deep}"), `subPath "file/deep" of volume "dir"`},
		"a host port that another has": {
			port(good), "NodePorts: Predicate NodePorts failed"},
		"an image that runs as root": {
			security("{runAsNonRoot: true}"), "container has runAsNonRoot and image will run as root"},
	} {
		t.Run(name, func(t *testing.T) {
			write(t, "web.yaml", tc.file)
			await(t, "the condition that says why the change waits", func(found []template.Workload) bool {
				return slices.ContainsFunc(found, func(nw template.Workload) bool {
					c := meta.FindStatusCondition(nw.Status.Conditions, v1alpha1.ConditionUpdateWaiting)
					return c != nil && c.Reason == v1alpha1.ReasonFileRefused && strings.Contains(c.Message, tc.says)
				})
			})
			awaitLog(t, "StaticWorkloadRefused", strings.ReplaceAll(tc.says, `"`, `\"`))
			if again := awaitReady(t, "1"); again != first {
				t.Errorf("container %s was replaced by %s", first, again)
			}
		})
	}
	restart(t)
	if again := awaitReady(t, "1"); again != first {
		t.Errorf("container %s was replaced by %s when the shim was restarted", first, again)
	}
	write(t, "web.yaml", manifest("web", "2", logs))
	if second := awaitReady(t, "2"); second == first {
		t.Error("the changed workload has the same container")
	}
	remove(t, "web.yaml")
	remove(t, "other.yaml")
	awaitNone(t)
}
