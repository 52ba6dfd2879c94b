// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/managedworkload/managedworkload/hack/managertest"
)

// A Pod that the kubelet has not admitted is left as it is: with more, it might be refused. One
// Pod is resized every 5 s at most, whatever comes and goes meanwhile. Conditions that wait to be written
// do not hold up a resize.
func TestResizesAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		patches := 0
		c := fake.NewClientBuilder().WithScheme(managertest.Scheme(t)).WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
				patches++
				return nil
			},
		}).Build()
		r := &Reconciler{client: c, memos: newMemos(), timing: usual, writes: flowcontrol.NewFakeNeverRateLimiter(), resizes: flowcontrol.NewFakeAlwaysRateLimiter()}
		resize := func(pod Pod, milliCPU int64) time.Duration {
			t.Helper()
			var next earliest
			if err := r.resize(t.Context(), &pod, plus(milliCPU, 0), time.Now(), &next); err != nil {
				t.Fatal(err)
			}
			return next.after
		}
		resize(Pod{Node: "n1", Asked: Own}, 100)
		if patches != 0 {
			t.Error("resized before it was admitted")
		}
		admitted := Pod{Node: "n1", Asked: Own, Admitted: true}
		resize(admitted, 100)
		time.Sleep(2 * time.Second)
		if again := resize(admitted, 200); patches != 1 || again != 3*time.Second {
			t.Errorf("%d resizes within 2 s, the next after %s; want 1 and 3s", patches, again)
		}
		time.Sleep(3 * time.Second)
		resize(admitted, 200)
		admitted.Asked = plus(200, 0)
		time.Sleep(time.Hour)
		resize(admitted, 200)
		if patches != 2 {
			t.Errorf("%d resizes in all, want 2", patches)
		}
	})
}
