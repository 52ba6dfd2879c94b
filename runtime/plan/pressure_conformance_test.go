// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/managedworkload/managedworkload/hack/recordings"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// Flags are refused and parsed as by the kubelet, and the same thresholds are met.
func TestConformanceEvictionThresholds(t *testing.T) {
	t.Parallel()
	recordings.Each(t, "eviction-thresholds", func(t *testing.T, _ []byte, v *recordings.Thresholds) {
		flags := v.Flags.Plan()
		_, err := flags.Thresholds()
		if (err != nil) != v.Failed {
			t.Fatalf("%s: error %v, the kubelet failed: %t", v.ID, err, v.Failed)
		}
		if err != nil {
			return
		}
		all := append(parsedBySignal(t, plan.EvictionFlags{Hard: flags.Hard, MinimumReclaim: flags.MinimumReclaim}),
			parsedBySignal(t, plan.EvictionFlags{Soft: flags.Soft, SoftGracePeriod: flags.SoftGracePeriod, MinimumReclaim: flags.MinimumReclaim})...)
		got := []recordings.Threshold{}
		for _, threshold := range all {
			parsed := recordings.Threshold{Signal: string(threshold.Signal), Value: amount(threshold.Value), GraceSeconds: threshold.GracePeriod.Seconds()}
			if threshold.MinReclaim != nil {
				parsed.MinReclaim = new(amount(*threshold.MinReclaim))
			}
			got = append(got, parsed)
		}
		if diff := cmp.Diff(v.Thresholds, got); diff != "" {
			t.Errorf("%s: %s", v.ID, diff)
		}
		observed := recordings.Observations(v.Observed)
		if diff := cmp.Diff(v.Met, places(all, plan.ThresholdsMet(all, observed, false))); diff != "" {
			t.Errorf("%s: met: %s", v.ID, diff)
		}
		if diff := cmp.Diff(v.Unresolved, places(all, plan.ThresholdsMet(all, observed, true))); diff != "" {
			t.Errorf("%s: not resolved: %s", v.ID, diff)
		}
	})
}

func parsedBySignal(t *testing.T, flags plan.EvictionFlags) []plan.Threshold {
	t.Helper()
	thresholds, err := flags.Thresholds()
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(thresholds, func(a, b plan.Threshold) int { return strings.Compare(string(a.Signal), string(b.Signal)) })
	return thresholds
}

func amount(v plan.ThresholdValue) recordings.Amount {
	if v.Quantity != nil {
		return recordings.Amount{Quantity: v.Quantity.String()}
	}
	return recordings.Amount{Percentage: v.Percentage}
}

// places are those of some in all.
func places(all, some []plan.Threshold) []int {
	found := []int{}
	for i := range all {
		if slices.Contains(some, all[i]) {
			found = append(found, i)
		}
	}
	return found
}

// Pods are ranked as by the kubelet, for each signal.
func TestConformanceEvictionRank(t *testing.T) {
	t.Parallel()
	recordings.Each(t, "eviction-rank", func(t *testing.T, _ []byte, v *recordings.Rank) {
		order := []string{}
		for _, c := range plan.Rank(recordings.Candidates(v.Pods, v.Uses), plan.Signal(v.Signal), v.ImageFs) {
			order = append(order, c.Pod.Name)
		}
		if diff := cmp.Diff(v.Order, order); diff != "" {
			t.Errorf("%s, %s, own disk %t: %s", v.ID, v.Signal, v.ImageFs, diff)
		}
	})
}
