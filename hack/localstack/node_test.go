// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package localstack

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNodeNames(t *testing.T) {
	tests := map[string]struct {
		nodes int
		want  map[string]string // kubeconfig's identity by node
	}{
		"one":     {want: map[string]string{"n": "shim"}},
		"several": {nodes: 3, want: map[string]string{"n-1": "shim", "n-2": "shim-2", "n-3": "shim-3"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := &Stack{opts: Options{NodeName: "n", Nodes: tc.nodes}, layout: layout{dir: "/s"}}
			s.makeNodes()
			got := map[string]string{}
			for _, n := range s.Nodes {
				who := n.identity(shim)
				if who.node != n.NodeName() {
					t.Errorf("the token of %s is bound to %s", n.NodeName(), who.node)
				}
				got[n.NodeName()] = who.name
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
		})
	}
}
