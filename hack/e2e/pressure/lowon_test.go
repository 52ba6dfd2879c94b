// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package pressure

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
)

// lowOn restarts the shim with other thresholds until the test ends. No machine has as much as
// these tests ask for: they are met from the start, and the machine is not loaded.
func lowOn(t *testing.T, thresholds ...string) {
	t.Helper()
	shim := env.Stack.Shim
	args := shim.Args()
	others := slices.DeleteFunc(slices.Clone(args), func(arg string) bool {
		return strings.HasPrefix(arg, "--eviction-hard=") || strings.HasPrefix(arg, "--eviction-soft")
	})
	restart := func(ctx context.Context, args []string) {
		if err := shim.Stop(ctx); err != nil {
			t.Fatal(err)
		}
		// What the node was short of before ends with its file, and not after the transition period.
		if err := os.Remove(filepath.Join(env.Stack.ShimStateDir(), "pressure")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		shim.SetArgs(args...)
		if err := shim.Start(ctx); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { restart(context.Background(), args) })
	restart(t.Context(), append(others, thresholds...))
}

// kept checks that a workload is the one that ran before.
func kept(t *testing.T, w *harness.Workload, before *v1alpha1.NodeWorkload) {
	t.Helper()
	now := w.Node()
	if was := before.Status.ContainerStatuses[0].ContainerID; now.UID != before.UID || now.Status.ContainerStatuses[0].ContainerID != was {
		t.Errorf("%s ran, now %+v", was, now.Status)
	}
}

// matches checks a message of the kubelet about a node that is short of something.
func matches(t *testing.T, message, pattern string) {
	t.Helper()
	if !regexp.MustCompile("^" + pattern + "$").MatchString(message) {
		t.Errorf("message %q, want %s", message, pattern)
	}
}

// Where memory is short, a workload that uses more than it requests is ended before one of a lower
// priority that uses more, but less than it requests. One of a critical priority class stays
// whatever it uses. Nothing new is started but what requests something.
func TestMemoryPressure(t *testing.T) {
	over := env.Apply(t, prior+`
containers: [{name: c, image: managedworkload.dev/testprogram:v1, args: [allocate, "33554432", 1h]}]`)
	under := env.Apply(t, `
containers:
- name: c
  image: managedworkload.dev/testprogram:v1
  args: [allocate, "67108864", 1h]
  resources: {requests: {memory: 1Gi}}`)
	critical := env.Apply(t, `
priorityClassName: system-node-critical
containers: [{name: c, image: managedworkload.dev/testprogram:v1, args: [allocate, "100663296", 1h]}]`)
	overBefore, underBefore, criticalBefore := over.AwaitReady(), under.AwaitReady(), critical.AwaitReady()

	lowOn(t, "--eviction-hard=memory.available<1Pi")
	const words = `The node was low on resource: memory\. Threshold quantity: 1Pi, available: \d+[KMG]i\. `
	ended := evicted(t, over, overBefore)
	matches(t, ended.Status.Message, words+`Container c was using \d+[KM]i, request is 0, has larger consumption of memory\. `)
	kept(t, under, underBefore)
	hardKill(t, over, ended.Status.Message)
	refused(t, over, "[MemoryPressure]")
	pressure(t, "MemoryPressure")
	late := env.Apply(t, `
containers:
- name: c
  image: managedworkload.dev/testprogram:v1
  args: [serve]
  resources: {requests: {memory: 8Gi}}`)
	lateBefore := late.AwaitReady()

	matches(t, evicted(t, under, underBefore).Status.Message, words)
	kept(t, critical, criticalBefore)
	kept(t, late, lateBefore)
}

// Where process IDs are short, the lowest priority goes first, and among equals who has most
// processes. Where the disk of the images is short, who uses more of it than was requested goes,
// with its own grace period where that is smaller than the node's for a soft threshold.
func TestPIDPressureAndImageDisk(t *testing.T) {
	few := env.Apply(t, `
containers:
- name: c
  image: managedworkload.dev/testprogram:v1
  args: [serve]
  resources: {requests: {ephemeral-storage: 1Gi}}`)
	many := env.Apply(t, `
containers:
- {name: c, image: managedworkload.dev/testprogram:v1, args: [serve]}
- {name: d, image: managedworkload.dev/testprogram:v1, args: [serve]}`)
	important := env.Apply(t, prior+`
terminationGracePeriodSeconds: 2
containers:
- {name: c, image: managedworkload.dev/testprogram:v1, args: [seq, write, /file, text, ",", serve, --on-term=ignore]}
- {name: d, image: managedworkload.dev/testprogram:v1, args: [serve]}
- {name: e, image: managedworkload.dev/testprogram:v1, args: [serve]}`)
	fewBefore, manyBefore, importantBefore := few.AwaitReady(), many.AwaitReady(), important.AwaitReady()

	lowOn(t, "--eviction-hard=pid.available<1G", "--eviction-soft=imagefs.available<1Pi", "--eviction-soft-grace-period=imagefs.available=1s")
	ended := evicted(t, many, manyBefore)
	matches(t, ended.Status.Message, `The node was low on resource: pids\. Threshold quantity: 1G, available: \d+k?\. `)
	kept(t, important, importantBefore)
	hardKill(t, many, ended.Status.Message)
	pressure(t, "DiskPressure,PIDPressure")
	refused(t, many, "[DiskPressure PIDPressure]")

	ended = evicted(t, important, importantBefore)
	matches(t, ended.Status.Message, `The node was low on resource: ephemeral-storage\. Threshold quantity: 1Pi, available: \d+[KMG]i\. `+
		`(Container [cde] was using \d+([KM]i)?, request is 0, has larger consumption of ephemeral-storage\. ){3}`)
	for _, kill := range recorded(t, important) {
		if kill.Trigger != v1alpha1.TriggerNodePressure || kill.Grace.Seconds != 2 || (kill.Outcome == v1alpha1.KillOutcomeForced) != (kill.Container == "c") {
			t.Errorf("kill record %+v", kill)
		}
	}
	kept(t, few, fewBefore)
}
