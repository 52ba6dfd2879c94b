// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package localstack

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNodeNames(t *testing.T) {
	tests := map[string]struct {
		nodes int
		want  map[string]string // the shim's token by node
	}{
		"one":     {want: map[string]string{"n": "shim.token"}},
		"several": {nodes: 3, want: map[string]string{"n-1": "shim.token", "n-2": "shim-2.token", "n-3": "shim-3.token"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := &Stack{opts: Options{NodeName: "n", Nodes: tc.nodes}, layout: layout{dir: "/s"}}
			s.makeNodes()
			got := map[string]string{}
			for _, n := range s.Nodes {
				got[n.NodeName()] = filepath.Base(n.ShimTokenFile())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
		})
	}
}
