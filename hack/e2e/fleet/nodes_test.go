// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
	"github.com/managedworkload/managedworkload/hack/localstack"
)

// Each node runs one instance: in its own containerd, cgroups and pod network.
func TestFiveNodes(t *testing.T) {
	w := start(t)
	subnets := map[netip.Prefix]string{}
	for _, n := range env.Stack.Nodes {
		processes := w.On(n).Processes()
		if len(processes) != 1 {
			t.Fatalf("%s runs %v, want one container", n.NodeName(), processes)
		}
		if groups := cgroups(t, processes["c"]); !strings.Contains(groups, n.CgroupParent()+"/") {
			t.Errorf("%s: the container's cgroups are not below %s:\n%s", n.NodeName(), n.CgroupParent(), groups)
		}
		ip, err := netip.ParseAddr(w.share(n).Status.PodIPs[0])
		if err != nil {
			t.Fatal(err)
		}
		subnet, err := ip.Prefix(24)
		if err != nil {
			t.Fatal(err)
		}
		if other, taken := subnets[subnet]; taken {
			t.Errorf("%s and %s share the subnet %s", n.NodeName(), other, subnet)
		}
		subnets[subnet] = n.NodeName()
	}
	w.wantStarts(1)
}

func cgroups(t *testing.T, pid int) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cgroup"))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// The shim of a node whose containerd has a foreign pod starts nothing more. The other
// nodes do not see that pod.
func TestForeignPodOnOneNode(t *testing.T) {
	old, node := start(t), env.Stack.Nodes[2]
	before := old.processes()
	remove := runForeignPod(t, node)
	w := &workload{Workload: env.New(t), t: t}
	w.apply(localstack.ImageV1)
	for _, n := range env.Stack.Nodes {
		if n == node {
			continue
		}
		w.On(n).Await("the others are ready", func(nw *v1alpha1.NodeWorkload) bool { return nw.Status.Ready == "1/1" })
	}
	w.On(node).Await("the condition reports the foreign pod", func(nw *v1alpha1.NodeWorkload) bool {
		usable := meta.FindStatusCondition(nw.Status.Conditions, v1alpha1.ConditionRuntimeUsable)
		return usable != nil && usable.Status == metav1.ConditionFalse && usable.Reason == v1alpha1.ReasonForeignPods
	})
	if processes := w.On(node).Processes(); len(processes) != 0 {
		t.Errorf("%v started beside a foreign pod", processes)
	}
	remove()
	w.AwaitReady()
	old.wantProcesses(before)
}

// runForeignPod returns what removes the pod again.
func runForeignPod(t *testing.T, node *localstack.Node) (remove func()) {
	t.Helper()
	cri, err := node.CRI()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cri.Close() })
	pod, err := cri.RunPodSandbox(t.Context(), &runtimeapi.RunPodSandboxRequest{Config: &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "foreign", Namespace: "other", Uid: "foreign-uid"},
		Linux:    &runtimeapi.LinuxPodSandboxConfig{CgroupParent: node.CgroupBelow("foreign")},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if _, err := cri.StopPodSandbox(t.Context(), &runtimeapi.StopPodSandboxRequest{PodSandboxId: pod.GetPodSandboxId()}); err != nil {
			t.Fatal(err)
		}
		if _, err := cri.RemovePodSandbox(t.Context(), &runtimeapi.RemovePodSandboxRequest{PodSandboxId: pod.GetPodSandboxId()}); err != nil {
			t.Fatal(err)
		}
	}
}

// A node that goes away and comes back keeps its container, and takes a change up that
// restarts nothing.
func TestNodeAwayAndBack(t *testing.T) {
	w := start(t)
	f := w.follow()
	before, node := w.processes(), env.Stack.Nodes[3]
	env.Away(t, node)
	if got := cgroups(t, before[node.NodeName()]); !strings.Contains(got, node.CgroupParent()+"/") {
		t.Errorf("the container of the node that is away is gone: %s", got)
	}
	w.kubectl("patch", "mw", w.Name, "--type=merge", "-p", `{"spec":{"template":{"spec":{"terminationGracePeriodSeconds":11}}}}`)
	env.Back(t, node)
	f.until("all nodes have taken the change up", func(s shares) bool {
		return len(s.where(func(nw *v1alpha1.NodeWorkload) bool {
			return available(nw) && *nw.Spec.Template.Spec.TerminationGracePeriodSeconds == 11
		})) == nodes
	})
	w.wantProcesses(before)
}

// A manager that is killed in the middle of a roll-out, and the next one, give each node
// the new template once.
func TestManagerKilledDuringRollOut(t *testing.T) {
	w := start(t)
	f := w.follow()
	w.apply(localstack.ImageV2)
	f.until("a node has the new template", func(s shares) bool { return len(s.have(localstack.ImageV2)) > 0 })
	t.Cleanup(func() { startAgain(t, env.Stack.Manager) })
	if err := env.Stack.Manager.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	startAgain(t, env.Stack.Manager)
	f.until("all nodes run it", func(s shares) bool { return len(s.run(localstack.ImageV2)) == nodes })
	w.AwaitReady()
	w.wantStarts(2)
	if f.unavailable > 1 {
		t.Errorf("%d nodes were unavailable at once, want 1 at most", f.unavailable)
	}
}

func startAgain(t *testing.T, c *localstack.Component) {
	t.Helper()
	if c.Running() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), harness.Timeout)
	defer cancel()
	if err := c.Start(ctx); err != nil {
		t.Errorf("start again: %v", err)
	}
}
