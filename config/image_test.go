// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// makeImage is what make image would run, on one line, in a folder that has only the Makefile and what
// git commands make of it.
func makeImage(t *testing.T, git [][]string, args ...string) string {
	t.Helper()
	dir := t.TempDir()
	makefile, err := os.ReadFile(filepath.Join("..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "Makefile"), makefile, 0o600); err != nil {
		t.Fatal(err)
	}
	command := func(name string, args ...string) string {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Skip(err)
		}
		cmd := exec.CommandContext(t.Context(), path, args...) // #nosec G204 -- make and git with the arguments of this test
		// Neither the variables of the make that may run this test, nor the user's git.
		cmd.Dir, cmd.Env = dir, []string{
			"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CEILING_DIRECTORIES=" + filepath.Dir(dir), "GIT_CONFIG_NOSYSTEM=1",
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com",
		}
		output, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %q: %v\n%s", name, args, err, output)
		}
		return string(output)
	}
	for _, arguments := range git {
		command("git", arguments...)
	}
	output := command("make", append([]string{"-n", "image"}, args...)...)
	return strings.Join(strings.Fields(strings.ReplaceAll(output, "\\\n", " ")), " ")
}

// The image has the tag that config/default has (TestRendered): devel between releases, and
// the tag of git at one.
func TestImageHasTheTagOfTheConfiguration(t *testing.T) {
	const image = "managedworkload.dev/managedworkload"
	devel := submatch(t, "main.go", `(?m)^var version = "(.+)"$`)
	commit := [][]string{{"init", "-q"}, {"add", "."}, {"commit", "-qm", "a"}}
	tag := append(slices.Clone(commit), []string{"tag", "v1"})
	tests := map[string]struct {
		git  [][]string
		args []string
		// want are the tags, where COMMIT is an abbreviated commit.
		want []string
	}{
		"without git":           {want: []string{image + ":" + devel}},
		"a commit":              {git: commit, want: []string{image + ":COMMIT", image + ":" + devel}},
		"a tag":                 {git: tag, want: []string{image + ":v1"}},
		"after a tag":           {git: append(slices.Clone(tag), []string{"commit", "-qm", "b", "--allow-empty"}), want: []string{image + ":v1-1-gCOMMIT", image + ":" + devel}},
		"changed after a tag":   {git: append(slices.Clone(tag), []string{"rm", "-q", "--cached", "Makefile"}), want: []string{image + ":v1-dirty", image + ":" + devel}},
		"a version that is set": {git: commit, args: []string{"VERSION=v2", "IMAGE=example.com/mw"}, want: []string{"example.com/mw:v2"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			output := makeImage(t, tc.git, tc.args...)
			for _, found := range regexp.MustCompile(` -t (\S+)`).FindAllStringSubmatch(output, -1) {
				got = append(got, regexp.MustCompile(`[0-9a-f]{7,}`).ReplaceAllString(found[1], "COMMIT"))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("tags (-want +got):\n%s\n%s", diff, output)
			}
		})
	}
}

// What goes into an image does not depend on the day: the scanner that writes its SBOM has
// an exact version.
func TestImageAttestations(t *testing.T) {
	output := makeImage(t, nil)
	for _, pattern := range []string{` --sbom=generator=\S+:\d+\.\d+\.\d+ `, ` --provenance=mode=max `} {
		if !regexp.MustCompile(pattern).MatchString(output) {
			t.Errorf("make image has no%s: %s", pattern, output)
		}
	}
	document, err := os.ReadFile(filepath.Join("..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	if text := string(document); !strings.Contains(text, "\n    make image ") || strings.Contains(text, "\n    docker build ") {
		t.Error("docs/operations.md does not install what make image builds")
	}
}
