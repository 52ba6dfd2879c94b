// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// node is a node with n workloads, of which those listed are in the API.
func orphanNode(n int, listed ...types.UID) orphanInput {
	in := orphanInput{ClusterID: "here", Listed: map[types.UID]bool{}}
	for i := range n {
		in.Candidates = append(in.Candidates, candidate{UID: types.UID(fmt.Sprintf("%02d", i)), ClusterID: "here"})
	}
	for _, uid := range listed {
		in.Listed[uid] = true
	}
	return in
}

func TestDecideOrphans(t *testing.T) {
	fifteen := []types.UID{"00", "01", "02", "03", "04", "05", "06", "07", "08", "09", "10", "11", "12", "13", "14"}
	tests := map[string]struct {
		in         orphanInput
		wantKill   []types.UID
		wantHeld   []types.UID
		wantEnding []types.UID
	}{
		"an empty node":                {in: orphanNode(0)},
		"nothing is gone":              {in: orphanNode(2, "00", "01")},
		"one of one":                   {in: orphanNode(1), wantKill: []types.UID{"00"}},
		"two of two are few":           {in: orphanNode(2), wantKill: []types.UID{"00", "01"}},
		"three of three are many":      {in: orphanNode(3), wantHeld: []types.UID{"00", "01", "02"}},
		"three of fifteen are a fifth": {in: orphanNode(15, fifteen[3:]...), wantKill: fifteen[:3]},
		"three of fourteen are more":   {in: orphanNode(14, fifteen[3:]...), wantHeld: fifteen[:3]},
		"a foreign cluster's alone": {
			in:       change(orphanNode(2, "00"), func(in *orphanInput) { in.Candidates[1].ClusterID = "there" }),
			wantHeld: []types.UID{"01"},
		},
		"a foreign cluster's beside one of ours": {
			in:       change(orphanNode(2), func(in *orphanInput) { in.Candidates[1].ClusterID = "there" }),
			wantKill: []types.UID{"00"}, wantHeld: []types.UID{"01"},
		},
		"the list of another cluster": {
			in:       change(orphanNode(2), func(in *orphanInput) { in.ClusterID = "there" }),
			wantHeld: []types.UID{"00", "01"},
		},
		"a cluster that was not recorded": {
			in:       change(orphanNode(1), func(in *orphanInput) { in.Candidates[0].ClusterID = "" }),
			wantKill: []types.UID{"00"},
		},
		"those that end anyway do not count": {
			in: change(orphanNode(4), func(in *orphanInput) {
				for i := range in.Candidates[:3] {
					in.Candidates[i].Ending = true
				}
			}),
			wantKill: []types.UID{"03"}, wantEnding: []types.UID{"00", "01", "02"},
		},
		"one that ends and is listed": {
			in: change(orphanNode(1, "00"), func(in *orphanInput) { in.Candidates[0].Ending = true }),
		},
		"one that ends, of another cluster": {
			in: change(orphanNode(1), func(in *orphanInput) { in.Candidates[0].Ending, in.ClusterID = true, "there" }),
		},
		"one that ends is none of the node's": {
			in:         change(orphanNode(15, fifteen[4:]...), func(in *orphanInput) { in.Candidates[0].Ending = true }),
			wantHeld:   fifteen[1:4],
			wantEnding: fifteen[:1],
		},
		"one that ends beside many": {
			in:         change(orphanNode(4), func(in *orphanInput) { in.Candidates[0].Ending = true }),
			wantHeld:   []types.UID{"01", "02", "03"},
			wantEnding: []types.UID{"00"},
		},
		"another confirmation": {
			in:       change(orphanNode(3), func(in *orphanInput) { in.Confirmed = tokenOf("here", []types.UID{"00", "01"}) }),
			wantHeld: []types.UID{"00", "01", "02"},
		},
		"a confirmation for another cluster": {
			in:       change(orphanNode(3), func(in *orphanInput) { in.Confirmed = tokenOf("there", []types.UID{"00", "01", "02"}) }),
			wantHeld: []types.UID{"00", "01", "02"},
		},
		"confirmed": {
			in:       change(orphanNode(3), func(in *orphanInput) { in.Confirmed = tokenOf("here", []types.UID{"02", "00", "01"}) }),
			wantKill: []types.UID{"00", "01", "02"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := decideOrphans(tt.in)
			if diff := cmp.Diff(tt.wantKill, got.Kill); diff != "" {
				t.Errorf("kill (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(tt.wantHeld, got.Held); diff != "" {
				t.Errorf("held (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(tt.wantEnding, got.Ending); diff != "" {
				t.Errorf("ending (-want +got)\n%s", diff)
			}
			confirm := v1alpha1.AnnotationConfirmOrphans + "=" + got.Token
			if (got.Token != "") != (len(got.Held) > 0) || (got.Token != "" && !strings.Contains(got.Message, confirm)) {
				t.Errorf("token %q, message %q", got.Token, got.Message)
			}
		})
	}
}

func change(in orphanInput, f func(*orphanInput)) orphanInput {
	f(&in)
	return in
}
