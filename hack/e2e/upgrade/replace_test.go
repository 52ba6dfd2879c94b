// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/hack/localstack"
)

// upgrade is what docs/operations.md says: the new configuration is applied, and
// the programs are replaced.
func upgrade(t *testing.T) {
	t.Helper()
	began := time.Now()
	stopPrograms(t)
	applyConfig(t, newConfig)
	removed := runDocumented(t, "operations.md", "## Upgrades")
	if from.leaseRoles {
		for _, namespace := range []string{corev1.NamespaceNodeLease, localstack.SystemNamespace} {
			wantRemoved(t, removed, `role.rbac.authorization.k8s.io "managedworkload-shim-lease" deleted from `+namespace)
			wantRemoved(t, removed, `rolebinding.rbac.authorization.k8s.io "managedworkload-shim-lease" deleted from `+namespace)
		}
	}
	wantNothingElse(t, newConfig)
	startPrograms(t, newProgram)
	t.Logf("the upgrade took %s", time.Since(began).Round(100*time.Millisecond))
}

// goBack is what docs/upgrading.md says: the older configuration is applied while the newer
// programs run, as kubectl apply does it, and the programs are replaced. last runs while
// the newer ones still do.
func goBack(t *testing.T, last func()) {
	t.Helper()
	applyConfig(t, oldConfig)
	removed := runDocumented(t, "upgrading.md", "### To a version without KillRequest")
	wantRemoved(t, removed, `customresourcedefinition.apiextensions.k8s.io "killrequests.managedworkload.dev" deleted`)
	if !from.strategy {
		removed := runDocumented(t, "upgrading.md", "### To a version without spec.updateStrategy")
		wantRemoved(t, removed, `poddisruptionbudget.policy "managedworkload-manager" deleted`)
		wantRemoved(t, removed, `resourcequota "managedworkload-priority" deleted`)
	}
	wantNothingElse(t, oldConfig)
	last()
	stopPrograms(t)
	startPrograms(t, oldProgram)
}

func stopPrograms(t *testing.T) {
	t.Helper()
	atOnce(t, func(c *localstack.Component) error {
		if !c.Running() {
			return errors.New("the manager or a shim has ended by itself")
		}
		return c.Stop(t.Context())
	})
}

// flagsOfNew keep how full the machine's disk is out of the tests, and links of logs in the node's
// folder; earlier shims do not know them. localstack gives them to the shims that it builds.
func flagsOfNew(n *localstack.Node) []string {
	return []string{"--eviction-hard=memory.available<0%", "--image-gc-high-threshold=100", "--container-log-link-dir=" + n.LogLinks()}
}

// startPrograms starts the manager and all shims of what was built.
func startPrograms(t *testing.T, built string) {
	t.Helper()
	for _, n := range env.Stack.Nodes {
		flags := flagsOfNew(n)
		args := slices.DeleteFunc(n.Shim.Args(), func(arg string) bool { return slices.Contains(flags, arg) })
		if built == newProgram {
			args = append(args, flags...)
		}
		n.Shim.SetArgs(args...)
	}
	if err := errors.Join(os.Remove(program), os.Link(built, program)); err != nil {
		t.Fatal(err)
	}
	want, err := os.Stat(built)
	if err != nil {
		t.Fatal(err)
	}
	atOnce(t, func(c *localstack.Component) error {
		if err := c.Start(t.Context()); err != nil {
			return err
		}
		runs, err := os.Stat(fmt.Sprintf("/proc/%d/exe", c.PID()))
		if err == nil && !os.SameFile(want, runs) {
			err = fmt.Errorf("process %d does not run %s", c.PID(), built)
		}
		return err
	})
}

// atOnce does something with the manager and all shims at once.
func atOnce(t *testing.T, do func(*localstack.Component) error) {
	t.Helper()
	var group errgroup.Group
	group.Go(func() error { return do(env.Stack.Manager) })
	for _, n := range env.Stack.Nodes {
		group.Go(func() error { return do(n.Shim) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

func applyConfig(t *testing.T, folder string) {
	t.Helper()
	if err := env.Stack.ApplyConfig(t.Context(), folder); err != nil {
		t.Fatal(err)
	}
}

// runDocumented removes what kubectl apply does not, by the commands of a section of docs,
// and returns what they say.
func runDocumented(t *testing.T, file, section string) string {
	t.Helper()
	docs, err := os.ReadFile(filepath.Join(root, "docs", file))
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(docs), "\n"+section+"\n")
	if !found {
		t.Fatalf("docs/%s has no section %q", file, section)
	}
	text, _, _ = strings.Cut(text, "\n##")
	output := ""
	for line := range strings.Lines(text) {
		if command, ok := strings.CutPrefix(line, "    kubectl delete "); ok {
			output += kubectl(t, append([]string{"delete"}, strings.Fields(command)...)...)
		}
	}
	return output
}

func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := env.Stack.Kubectl(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func wantRemoved(t *testing.T, removed, want string) {
	t.Helper()
	if !strings.Contains(removed, want) {
		t.Errorf("the documented commands say %q, want %q", removed, want)
	}
}

// wantNothingElse wants nothing of ours that is not in the configuration.
func wantNothingElse(t *testing.T, config string) {
	t.Helper()
	config, err := filepath.Abs(config)
	if err != nil {
		t.Fatal(err)
	}
	known := kubectl(t, "get", "-k", config, "-o=name")
	const kinds = "roles,rolebindings,clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings," +
		"validatingwebhookconfigurations,crds,priorityclasses,serviceaccounts,services,deployments,daemonsets,poddisruptionbudgets,resourcequotas,networkpolicies," +
		"flowschemas,prioritylevelconfigurations"
	for name := range strings.Lines(kubectl(t, "get", kinds, "-A", "-o=name")) {
		ofComponent := strings.Contains(name, "standalone-shim")
		if strings.Contains(name, "managedworkload") && !ofComponent && !strings.Contains(known, name) {
			t.Errorf("the earlier configuration left %s", name)
		}
	}
}
