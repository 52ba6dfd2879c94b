// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/managedworkload/managedworkload/runtime/podworker"
)

// One shim after another counts in the same process; two at once are refused, and
// end nothing.
func TestMetricsOfASecondShim(t *testing.T) {
	all := prometheus.NewRegistry()
	counting := func() *shim {
		s := &shim{counted: prometheus.NewRegistry()}
		podworker.NewMetrics(s.counted)
		countStream(s.counted, func() bool { return true })
		return s
	}
	for range 2 {
		stop, err := counting().count(all)
		if err != nil {
			t.Fatal(err)
		}
		if found, err := all.Gather(); err != nil || len(found) == 0 {
			t.Errorf("%d families, error %v", len(found), err)
		}
		if _, err := counting().count(all); err == nil {
			t.Error("two shims count in one process")
		}
		stop()
		if found, err := all.Gather(); err != nil || len(found) != 0 {
			t.Errorf("%d families after the end, error %v", len(found), err)
		}
	}
}
