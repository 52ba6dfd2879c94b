// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package localstack

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadRecipe(t *testing.T) {
	const build = "FROM golang:1.26 AS build\nRUN go build -o /x .\n\n# Nothing else.\n"
	tests := map[string]struct {
		text string
		want recipe
		bad  bool
	}{
		"the usual": {
			text: build + "FROM scratch\nCOPY --from=build /x /y\nUSER 1:2\n# A comment.\nENTRYPOINT [\"/y\", \"z\"]\n",
			want: recipe{target: "/y", user: "1:2", entrypoint: []string{"/y", "z"}},
		},
		"labels": {
			text: build + "FROM scratch\nARG A=b\nLABEL x=$A \\\n      y=z\nCOPY --from=build /x /y\n",
			want: recipe{target: "/y"},
		},
		"another base":           {text: build + "FROM debian\nCOPY --from=build /x /y\n", bad: true},
		"a stage after it":       {text: build + "FROM scratch\nCOPY --from=build /x /y\nFROM debian\n", bad: true},
		"a file of the context":  {text: build + "FROM scratch\nCOPY x /y\n", bad: true},
		"two files":              {text: build + "FROM scratch\nCOPY --from=build /x /y\nCOPY --from=build /x /z\n", bad: true},
		"an entry point's shell": {text: build + "FROM scratch\nENTRYPOINT /y z\n", bad: true},
		"anything else":          {text: build + "FROM scratch\nENV A=b\n", bad: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "Dockerfile")
			if err := os.WriteFile(file, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := readRecipe(file)
			if (err != nil) != test.bad {
				t.Fatalf("error %v", err)
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(recipe{})); diff != "" {
				t.Errorf("recipe (-want +got):\n%s", diff)
			}
		})
	}
}

// The product's own Dockerfile is one that is understood.
func TestReadRecipeOfTheProduct(t *testing.T) {
	root, err := repositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	got, err := readRecipe(filepath.Join(root, "Dockerfile"))
	want := recipe{target: "/managedworkload", user: "65532:65532", entrypoint: []string{"/managedworkload"}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(recipe{})); err != nil || diff != "" {
		t.Errorf("error %v, recipe (-want +got):\n%s", err, diff)
	}
}

// The Dockerfile copies what the program is built from.
func TestDockerfileCopiesSources(t *testing.T) {
	root, err := repositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	copied := map[string]bool{}
	for line := range strings.Lines(string(content)) {
		fields := strings.Fields(line)
		for i, source := range fields {
			if fields[0] == "COPY" && i > 0 && i < len(fields)-1 {
				copied[source] = true
			}
		}
	}
	var packages bytes.Buffer
	list := command{path: "go", args: []string{"list", "-deps", "-f", "{{.ImportPath}}", "."}, dir: root, out: &packages}
	if err := run(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	for name := range strings.Lines(packages.String()) {
		name, ours := strings.CutPrefix(strings.TrimSpace(name), modulePath)
		if folder, _, _ := strings.Cut(strings.TrimPrefix(name, "/"), "/"); ours && folder != "" && !copied[folder] {
			t.Errorf("the program needs %s, which the Dockerfile does not copy", name)
		}
	}
	for _, file := range []string{"go.mod", "go.sum", "main.go"} {
		if !copied[file] {
			t.Errorf("the Dockerfile does not copy %s", file)
		}
	}
}

// The kubelet's node, the host's and the stack's own nodes share nothing by chance.
func TestNodesDiffer(t *testing.T) {
	l, err := newLayout(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for name, node := range map[string]layout{
		"own": l, "second": l.further(2), "third": l.further(3), "kubelet": l.kubeletNode(), "host": l.hostNode(),
	} {
		for _, thing := range []string{
			node.dir, node.bridge(), node.serviceBridge(), node.cgroupParent(), node.containerdSocket(), node.shimSockets(),
			node.runcRoot(), node.cniConfig(), node.podLogs(), node.containerdConfig(),
		} {
			if other, again := seen[thing]; again {
				t.Errorf("%s belongs to %s and %s", thing, other, name)
			}
			seen[thing] = name
		}
	}
}
