// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

func TestKillsAreCountedByOutcome(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := NewMetrics(reg)
	for _, outcome := range []v1alpha1.KillOutcome{v1alpha1.KillOutcomeForced, "", ""} {
		m.killEnded(v1alpha1.KillRecord{Trigger: v1alpha1.TriggerTermination, Outcome: outcome})
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]float64{}
	for _, family := range families {
		if family.GetName() != "managedworkload_shim_kills_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "outcome" {
					counted[label.GetValue()] = metric.GetCounter().GetValue()
				}
			}
		}
	}
	if len(counted) != 2 || counted["Forced"] != 1 || counted["Unknown"] != 2 {
		t.Errorf("counted %v, want one Forced and two Unknown", counted)
	}
}
