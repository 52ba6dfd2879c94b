// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"
)

func TestNodeWorkloadName(t *testing.T) {
	long := strings.Repeat("n", 60)
	tests := map[string]struct {
		workload, node string
		want           string // before the hash
	}{
		"short":                    {"web", "n1", "web-n1-"},
		"node with dots":           {"web", "n1.example.com", "web-n1.example.com-"},
		"too long":                 {"abc", long, "abc-" + strings.Repeat("n", 48) + "-"},
		"cut in front of a dot":    {"abc", strings.Repeat("n", 48) + "." + long, "abc-" + strings.Repeat("n", 48) + "-"},
		"cut behind a dot's label": {"abc", strings.Repeat("n", 47) + "." + long, "abc-" + strings.Repeat("n", 47) + "-"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := NodeWorkloadName(tc.workload, tc.node)
			if !strings.HasPrefix(got, tc.want) || len(got) != len(tc.want)+hashLength {
				t.Errorf("NodeWorkloadName(%q, %q) = %q, want %q and a hash", tc.workload, tc.node, got, tc.want)
			}
		})
	}
	if a, b := NodeWorkloadName("web", "gpu-node-1"), NodeWorkloadName("web-gpu", "node-1"); a == b {
		t.Errorf("two workloads have a NodeWorkload %q", a)
	}
}

// The hash is part of what users and scripts have seen: it does not change.
func TestNamesStay(t *testing.T) {
	for got, want := range map[string]string{
		NodeWorkloadName("web", "n1"):             "web-n1-1e6049b0da",
		LabelValue("web"):                         "web",
		NodeWorkloadName("web", "n1.example.com"): "web-n1.example.com-069820284f",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Every name is one that a Pod and a host may have, and no two pairs have the same.
func TestNamesAreValid(t *testing.T) {
	name := rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?){0,3}`)
	rapid.Check(t, func(t *rapid.T) {
		workload, node := name.Draw(t, "workload"), name.Draw(t, "node")
		got := NodeWorkloadName(workload, node)
		if errs := validation.IsDNS1123Subdomain(got); len(got) > 63 || len(errs) > 0 {
			t.Fatalf("%q is no name of a Pod: %v", got, errs)
		}
		if errs := validation.IsValidLabelValue(LabelValue(workload)); len(errs) > 0 {
			t.Fatalf("%q is no label value: %v", LabelValue(workload), errs)
		}
		if got == NodeWorkloadName(workload, node+"x") {
			t.Fatalf("two nodes have the name %q", got)
		}
		if front, back, cut := strings.Cut(node, "-"); cut && got == NodeWorkloadName(workload+"-"+front, back) {
			t.Fatalf("two workloads have the name %q", got)
		}
	})
}
