// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"
)

// Every command that does something documents its exit codes, and is in docs/cli.md.
func TestCommandsAreDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "cli.md"))
	if err != nil {
		t.Fatal(err)
	}
	a := &app{flags: genericclioptions.NewConfigFlags(true)}
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		for _, child := range cmd.Commands() {
			check(child)
		}
		if !cmd.Runnable() {
			return
		}
		if !strings.Contains(cmd.Long, "Exit codes") {
			t.Errorf("%s --help does not name the exit codes", cmd.CommandPath())
		}
		if !strings.Contains(string(page), cmd.CommandPath()) {
			t.Errorf("docs/cli.md does not mention %s", cmd.CommandPath())
		}
	}
	check(a.root("kubectl-mw", "v0"))
}

// --help works with kubectl's flags behind it.
func TestHelp(t *testing.T) {
	var out bytes.Buffer
	code := New([]string{"kubectl-mw", "--help", "-n", "shop"}, "v0", genericiooptions.IOStreams{Out: &out, ErrOut: &out}).Run(t.Context())
	if code != ExitOK || !strings.Contains(out.String(), "kubectl mw [command]") {
		t.Errorf("exit code %d: %s", code, out.String())
	}
}

// A command that does not exist is an error, in every group; a group alone prints its help.
func TestUnknownCommand(t *testing.T) {
	tests := map[string]struct {
		args []string
		code int
		want string
	}{
		"typo":                    {args: []string{"rollout", "satus", "web"}, code: ExitError, want: "error: unknown command \"satus\" for \"kubectl mw rollout\"; did you mean status?\n"},
		"of another version":      {args: []string{"rollout", "promote", "web"}, code: ExitError, want: "error: unknown command \"promote\" for \"kubectl mw rollout\"\n"},
		"flags before it":         {args: []string{"rollout", "-n", "shop", "promote"}, code: ExitError, want: "error: unknown command \"promote\""},
		"unknown flag of a group": {args: []string{"rollout", "--frobnicate"}, code: ExitError, want: "error: unknown flag: --frobnicate"},
		"of the plugin":           {args: []string{"rolout", "status"}, code: ExitError, want: "error: unknown command \"rolout\" for \"kubectl mw\""},
		"shell":                   {args: []string{"completion", "csh"}, code: ExitError, want: "error: unknown command \"csh\" for \"kubectl mw completion\""},
		"help about what is not":  {args: []string{"help", "rollout", "satus"}, code: ExitError, want: "error: unknown command \"satus\" for \"kubectl mw rollout\""},
		"help about a command":    {args: []string{"help", "rollout", "status"}, want: "Watch a roll-out until every node"},
		"a group":                 {args: []string{"rollout"}, want: "kubectl mw rollout [command]"},
		"a group, asked for help": {args: []string{"rollout", "--help"}, want: "kubectl mw rollout [command]"},
		"nothing":                 {want: "kubectl mw [command]"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			code := New(append([]string{"kubectl-mw"}, tc.args...), "v0", genericiooptions.IOStreams{Out: &out, ErrOut: &errOut}).Run(t.Context())
			got := out.String()
			if tc.code != ExitOK {
				got = errOut.String()
			}
			if code != tc.code || !strings.Contains(got, tc.want) {
				t.Errorf("exit code %d, want %d\noutput %s\nerror %s\nwant %s", code, tc.code, out.String(), errOut.String(), tc.want)
			}
		})
	}
}

func TestDisplayName(t *testing.T) {
	for file, want := range map[string]string{
		"/usr/bin/kubectl-mw": "kubectl mw", "kubectl-managedworkload": "kubectl managedworkload", `kubectl-mw.exe`: "kubectl mw", "cli.test": "kubectl mw",
	} {
		if got := displayName(file); got != want {
			t.Errorf("%s is called %q, want %q", file, got, want)
		}
	}
}

// The plugin runs where people work: nothing of it is for Linux alone.
func TestBuildsOnOtherSystems(t *testing.T) {
	for _, system := range []string{"darwin", "windows"} {
		cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "./cmd/kubectl-managedworkload")
		cmd.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
		out, err := cmd.CombinedOutput()
		if err != nil || strings.Contains(string(out), "managedworkload/runtime/cri") {
			t.Errorf("on %s: %v\n%s", system, err, out)
		}
	}
}

// The manifest, filled in as release.sh does, is one that krew accepts: https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/
func TestKrewManifest(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("krew", "managedworkload.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var m struct {
		APIVersion, Kind string
		Metadata         struct{ Name string }
		Spec             struct {
			Version, Homepage, ShortDescription, Description, Caveats string
			Platforms                                                 []struct {
				Selector struct {
					MatchLabels struct{ OS, Arch string }
				}
				URI, SHA256, Bin string
				Files            []struct{ From, To string }
			}
		}
	}
	filled := regexp.MustCompile(`SHA256-[\w-]+`).ReplaceAllString(string(text), strings.Repeat("0", 64))
	filled = strings.NewReplacer("NAME", "managedworkload", "VERSION", "v1.2.3").Replace(filled)
	if err := yaml.UnmarshalStrict([]byte(filled), &m); err != nil {
		t.Fatal(err)
	}
	if m.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || m.Kind != "Plugin" || m.Metadata.Name != "managedworkload" {
		t.Errorf("it is %s %s %s", m.APIVersion, m.Kind, m.Metadata.Name)
	}
	if !regexp.MustCompile(`^v\d+\.\d+\.\d+`).MatchString(m.Spec.Version) || len(m.Spec.ShortDescription) == 0 || len(m.Spec.ShortDescription) > 50 || m.Spec.Description == "" || !strings.HasPrefix(m.Spec.Homepage, "https://") {
		t.Errorf("version %q, short description %q, homepage %q", m.Spec.Version, m.Spec.ShortDescription, m.Spec.Homepage)
	}
	seen := map[string]bool{}
	for _, p := range m.Spec.Platforms {
		platform := p.Selector.MatchLabels.OS + "-" + p.Selector.MatchLabels.Arch
		if seen[platform] {
			t.Errorf("%s is there twice", platform)
		}
		seen[platform] = true
		if !strings.HasPrefix(p.URI, "https://") || !strings.HasSuffix(p.URI, m.Spec.Version+"/kubectl-managedworkload-"+platform+".tar.gz") {
			t.Errorf("%s: archive %s", platform, p.URI)
		}
		if !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(p.SHA256) {
			t.Errorf("%s: checksum %q", platform, p.SHA256)
		}
		names := map[string]bool{}
		for _, f := range p.Files {
			names[f.From] = true
		}
		if !names[p.Bin] || !names["LICENSE"] {
			t.Errorf("%s: files %v have not LICENSE and %q", platform, p.Files, p.Bin)
		}
	}
	for _, platform := range []string{"linux-amd64", "linux-arm64", "darwin-amd64", "darwin-arm64", "windows-amd64"} {
		if !seen[platform] {
			t.Errorf("no archive for %s", platform)
		}
	}
}
