// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/cri"
)

func TestOptionsThatDoNotFit(t *testing.T) {
	const endpoint = "unix:///fake"
	tests := map[string]struct {
		options Options
		want    string
	}{
		"nothing":             {Options{}, "nothing to plan"},
		"only an endpoint":    {Options{RuntimeEndpoint: endpoint}, "nothing to plan"},
		"file alone":          {Options{File: "a"}, "-f needs --runtime-endpoint"},
		"diff alone":          {Options{Diff: "a"}, "--diff needs -f"},
		"two standard inputs": {Options{File: "-", Diff: "-"}, "standard input"},
		"unknown format":      {Options{File: "a", RuntimeEndpoint: endpoint, Output: "xml"}, "--output"},
		"no such file":        {Options{File: "/nowhere/a", RuntimeEndpoint: endpoint}, "/nowhere/a"},
		"bad file":            {Options{File: "-", RuntimeEndpoint: endpoint}, "standard input: "},
		"bad endpoint":        {Options{File: "testdata/old.yaml", RuntimeEndpoint: "tcp://x"}, "observe the runtime at tcp://x"},
		"nothing listens":     {Options{File: "testdata/old.yaml", RuntimeEndpoint: "unix:///nowhere/a.sock"}, "/nowhere/a.sock"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			tc.options.Stdin, tc.options.Stdout = strings.NewReader("kind: X\n"), &out
			if tc.options.Output == "" {
				tc.options.Output = formatTable
			}
			err := Run(t.Context(), tc.options)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one that says %q", err, tc.want)
			}
			if out.Len() > 0 {
				t.Errorf("output %q", &out)
			}
		})
	}
}

// Two files must be about the same workload.
func TestDiffOfTwoWorkloads(t *testing.T) {
	tests := map[string]struct {
		edit func(*v1alpha1.NodeWorkload)
		want string
	}{
		"name": {func(nw *v1alpha1.NodeWorkload) { nw.Name = "other" }, "metadata.name"},
		"node": {func(nw *v1alpha1.NodeWorkload) { nw.Spec.NodeName = "n2" }, "spec.nodeName"},
		"uid":  {func(nw *v1alpha1.NodeWorkload) { nw.UID = "u-2" }, "metadata.uid"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			changed := readOld(t)
			tc.edit(changed)
			err := Run(t.Context(), Options{
				File: filepath.Join("testdata", "old.yaml"), Diff: write(t, changed), Output: formatTable,
			})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one about %s", err, tc.want)
			}
		})
	}
}

func TestObserveErrors(t *testing.T) {
	broken := errors.New("broken")
	pod := func(uid types.UID) cri.Pod {
		return cri.Pod{UID: uid, Namespace: "shop", Name: "web-n1", Ours: true}
	}
	tests := map[string]struct {
		runtime fakeRuntime
		uid     types.UID
		want    string
	}{
		"list":          {fakeRuntime{listErr: broken}, "u", "broken"},
		"status":        {fakeRuntime{statusErr: broken}, "u", "broken"},
		"two instances": {fakeRuntime{pods: []cri.Pod{pod("a"), pod("b")}}, "", "the UID of the NodeWorkload is not known, and the runtime has 2 instances of shop/web-n1: [a b]"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			nw := readOld(t)
			nw.UID = tc.uid
			if _, err := observe(t.Context(), &tc.runtime, template.Of(nw)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}
