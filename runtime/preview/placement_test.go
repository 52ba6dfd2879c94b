// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// A change of the placement ends what runs, or is said not to be decided.
func TestPlacementOfAChange(t *testing.T) {
	const node, other = "{kind: Node, metadata: {name: n1, labels: {disk: ssd}}}", "{kind: Node, metadata: {name: n2}}"
	selector := func(value string) func(*v1alpha1.NodeWorkload) {
		return func(nw *v1alpha1.NodeWorkload) { nw.Spec.Template.Spec.NodeSelector = map[string]string{"disk": value} }
	}
	tests := map[string]struct {
		change          func(*v1alpha1.NodeWorkload)
		node            string
		want, wantError string
	}{
		"not decided without the node": {change: selector("hdd"), want: "Not decided: spec.nodeSelector changed"},
		"the node does not match":      {change: selector("hdd"), node: node, want: "The manager deletes the NodeWorkload: spec.nodeSelector does not match"},
		"the node matches":             {change: selector("ssd"), node: node, want: "Nothing to do."},
		"admission":                    {change: newImage("web"), node: node, want: "Admission was not asked"},
		"another node":                 {change: selector("ssd"), node: other, wantError: `--node is about node "n2"`},
		"no node":                      {change: selector("ssd"), node: "{kind: Pod}", wantError: "want a Node"},
		"a field that is not supported": {
			change:    func(nw *v1alpha1.NodeWorkload) { nw.Spec.Template.Spec.HostnameOverride = new("x") },
			wantError: "spec.template.spec.hostnameOverride",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			next := readOld(t)
			tc.change(next)
			var out bytes.Buffer
			o := Options{File: filepath.Join("testdata", "old.yaml"), Diff: write(t, next), Output: formatTable, Stdout: &out}
			if tc.node != "" {
				o.NodeFile = filepath.Join(t.TempDir(), "node.yaml")
				if err := os.WriteFile(o.NodeFile, []byte(tc.node), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			err := Run(t.Context(), o)
			if tc.wantError != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantError) {
					t.Errorf("error %v, want %q", err, tc.wantError)
				}
				return
			}
			if err != nil || !strings.Contains(out.String(), tc.want) {
				t.Errorf("error %v, output %s\nwant %q", err, &out, tc.want)
			}
		})
	}
}
