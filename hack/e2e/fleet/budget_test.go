// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// passes is how long after its start a container of these tests passes its probes, at the earliest.
const passes = 3 * time.Second

const startup = "startupProbe: {httpGet: {path: /startupz, port: 8080}, periodSeconds: 1, failureThreshold: 600}"

// slow is a server that takes a while to be available: with a flag, a probe or a field of the spec.
type slow struct{ spec, flag, probe string }

const slowManifest = `apiVersion: managedworkload.dev/v1alpha1
kind: ManagedWorkload
metadata: {name: %s, namespace: %s}
spec:
  %s
  template:
    spec:
      terminationGracePeriodSeconds: 10
      containers:
      - name: c
        image: %s
        args: [serve, --log-file=/dir/$(NODE), "--on-term=delay:200ms", "--http=:8080", %s]
        env: [{name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]
        %s
        volumeMounts: [{name: dir, mountPath: /dir}]
      volumes: [{name: dir, hostPath: {path: %s}}]
`

func (w *workload) applySlow(image string, s slow) {
	w.t.Helper()
	file := filepath.Join(w.Dir, "slow.yaml")
	text := fmt.Sprintf(slowManifest, w.Name, w.Namespace, s.spec, image, s.flag, s.probe, w.Dir)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.kubectl("apply", "-f", file)
}

// No change and no request takes an available node while another is without a container that has
// passed its probes: by what the containers wrote, whatever the status says.
func TestBudgetByTheContainers(t *testing.T) {
	slowStart := slow{flag: "--started-after=" + passes.String(), probe: startup}
	slowReady := slow{flag: "--ready-after=" + passes.String(), probe: "readinessProbe: {httpGet: {path: /readyz, port: 8080}, periodSeconds: 1}"}
	// Without a probe, the seconds count from the start by the runtime; on a busy machine the program says so later.
	minReady := slow{spec: "minReadySeconds: 6", flag: "--ready-after=0s"}
	change := func(w *workload, _ *follower) { w.applySlow(v2, slowStart) }
	tests := map[string]struct {
		slow    slow
		replace func(w *workload, f *follower)
	}{
		"Startup":   {slowStart, change},
		"Readiness": {slowReady, func(w *workload, _ *follower) { w.applySlow(v2, slowReady) }},
		"Request":   {slowStart, func(w *workload, _ *follower) { w.ask("within", everywhere, "order: RollOut") }},
		"MinReady":  {minReady, func(w *workload, _ *follower) { w.applySlow(v2, minReady) }},
		"ShimRestarts": {slowStart, func(w *workload, f *follower) {
			change(w, f)
			f.until("a node has the change", func(s shares) bool { return len(s.have(v2)) > 0 })
			restartShim(w.t, f.shares.have(v2)[0])
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := startSlow(t, tc.slow)
			f := w.followBy(ready)
			tc.replace(w, f)
			for _, node := range names() {
				w.AwaitFind(node, "started", 2)
			}
			f.until("all are ready", func(s shares) bool { return len(s.where(ready)) == nodes })
			if down := w.downAtOnce(passes); down != 1 {
				t.Errorf("%d nodes at once had no container that had run for %s, want 1", down, passes)
			}
			w.wantStarts(2)
		})
	}
	t.Run("NeverPasses", func(t *testing.T) {
		t.Parallel()
		slowStart := slow{spec: "progressDeadlineSeconds: 10", flag: "--started-after=0s", probe: startup}
		w := startSlow(t, slowStart)
		slowStart.flag = "--started-after=1h"
		w.applySlow(v2, slowStart)
		w.AwaitObject("the roll-out is stalled", func(mw *v1alpha1.ManagedWorkload) bool {
			return meta.IsStatusConditionTrue(mw.Status.Conditions, v1alpha1.ConditionStalled)
		})
		if stopped := w.stopped(); len(stopped) != 1 {
			t.Errorf("%q lost their containers to a change that never passes its startup probe, want one node", stopped)
		}
	})
}

// startSlow applies a server that is slow to be available, and waits until it is on all nodes.
func startSlow(t *testing.T, s slow) *workload {
	t.Helper()
	w := &workload{Workload: env.New(t), t: t}
	w.applySlow(v1, s)
	w.awaitRolledOut()
	return w
}

// restartShim kills the shim of a node and starts it again.
func restartShim(t *testing.T, name string) {
	t.Helper()
	for _, n := range env.Stack.Nodes {
		if n.NodeName() != name {
			continue
		}
		t.Cleanup(func() { startAgain(t, n.Shim) })
		if err := n.Shim.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		startAgain(t, n.Shim)
	}
}
