// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
)

const (
	// deletions is how many workloads are deleted while their container is
	// restarted.
	deletions = 24
	// restartTakes is more than a kill and the start after it take: the deletion
	// meets the kill, the creation, the start, or what follows.
	restartTakes = 400 * time.Millisecond
	// deletionTakes is more than the end of such a workload takes, its grace period
	// of 3 s included: a program that has just been started may miss its SIGTERM.
	// It is less than one takes that is not seen before the next look.
	deletionTakes = 15 * time.Second
)

// A deletion may come at any moment of a restart by a probe: no start that is cut
// off, and no wake that is missed, keeps the workload.
func TestDeletedWhileRestarted(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range deletions {
		moment := time.Duration(random.Int64N(int64(restartTakes)))
		probe := []string{"livenessProbe", "startupProbe"}[i%2]
		t.Run(fmt.Sprintf("%d %s", i, probe), func(t *testing.T) {
			t.Parallel()
			deleteWhileRestarted(t, probe, moment)
		})
	}
}

func deleteWhileRestarted(t *testing.T, probe string, moment time.Duration) {
	t.Helper()
	w := env.Apply(t, fmt.Sprintf(`
terminationGracePeriodSeconds: 3
containers:
- {name: c, image: managedworkload.dev/testprogram:v1, args: [serve, --log-file=/dir/c], volumeMounts: [{name: dir, mountPath: /dir}],
  %s: {exec: {command: [/testprogram, check-file, /dir/up]}, periodSeconds: 1, failureThreshold: 1}}`, probe)+dirVolume)
	w.Await("its container is being killed", func(nw *v1alpha1.NodeWorkload) bool { return len(nw.Status.Kills) > 0 })
	<-time.After(moment)
	begun := time.Now()
	w.Delete()
	// Both at once, as when a namespace is cleared.
	if err := client.IgnoreNotFound(env.Kube.DeleteAllOf(t.Context(), &v1alpha1.NodeWorkload{}, client.InNamespace(w.Namespace))); err != nil {
		t.Fatal(err)
	}
	w.AwaitGone()
	if took := time.Since(begun); took > deletionTakes {
		t.Errorf("deleted %s after the kill was seen, gone %s later; the container saw %q", moment, took, harness.Texts(w.Journal("c")))
	}
	if left := containers(t, w); len(left) > 0 {
		t.Errorf("%d containers are left", len(left))
	}
}
