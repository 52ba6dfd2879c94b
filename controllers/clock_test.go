// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/controllers/writes"
)

// The API server says, by its own clock, when a shim last changed anything in a status: the
// manager goes by that where a node's clock is wrong.
func TestManagedFieldsSayWhenAShimWrote(t *testing.T) {
	c := newCluster(t)
	n1 := c.node("n1")
	c.shimOn(n1)
	await(c, c.workload(), "Ready", readyOn(1))
	nw := c.nodeWorkload(n1)
	write := func(summary string) time.Time {
		c.must(retry.RetryOnConflict(retry.DefaultRetry, func() error {
			if err := api.Get(t.Context(), client.ObjectKeyFromObject(nw), nw); err != nil {
				return err
			}
			nw.Status.Summary = summary // has no time of its own
			return api.Status().Update(t.Context(), nw)
		}))
		for _, e := range nw.ManagedFields {
			if e.Subresource == "status" && e.Manager != writes.FieldManager {
				return e.Time.Time
			}
		}
		t.Fatal("managedFields do not say when the status was written")
		return time.Time{}
	}
	first := write("first")
	for i := 0; !write(fmt.Sprint(i)).After(first); i++ { // they have seconds
		if time.Since(first) > 30*time.Second {
			t.Fatalf("still written at %s", first)
		}
	}
}
