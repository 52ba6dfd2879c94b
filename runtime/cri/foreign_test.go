// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"strings"
	"testing"
)

func TestForeignPods(t *testing.T) {
	ours := Pod{Namespace: "ns", Name: "ours", Ours: true}
	tests := map[string]struct {
		pods []Pod
		want []string
	}{
		"none":            {},
		"only ours":       {pods: []Pod{ours}},
		"one beside ours": {pods: []Pod{ours, {Namespace: "kube-system", Name: "dns"}}, want: []string{"1 pods", "kube-system/dns", "--allow-foreign-pods"}},
		"another node's":  {pods: []Pod{ours, {Namespace: "ns", Name: "web-n2", Instance: "n2"}}, want: []string{"1 pods", "ns/web-n2 of node n2;"}},
		"very many":       {pods: make([]Pod, 50), want: []string{"50 pods", "..."}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := ForeignPods(tt.pods)
			if (got == "") != (len(tt.want) == 0) || len(got) > 1000 {
				t.Errorf("message %q", got)
			}
			for _, want := range tt.want {
				if !strings.Contains(got, want) {
					t.Errorf("message %q, want %q in it", got, want)
				}
			}
		})
	}
}
