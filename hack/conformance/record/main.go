// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Command record asks the kubelet's own functions what they make of new random
// cases, and replays the answers in the tests of the shim's core. First it makes
// sure that it answers the known vectors as they were recorded.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/managedworkload/managedworkload/hack/recordings"
)

var (
	number = flag.Int("n", 2000, "how many new cases of each kind to record")
	seed   = flag.Uint64("seed", 1, "the seed of the new cases")
	output = flag.String("output", "", "a folder to keep the new vectors in")
)

// replays are the packages whose tests replay vectors.
var replays = []string{"plan", "status", "executor", "pressure"}

// added are the files that an overlay adds to packages of the kubelet.
var added = map[string]string{
	"pkg/kubelet/zz_record.go":             "kubelet/record.go",
	"pkg/kubelet/kuberuntime/zz_record.go": "kuberuntime/record.go",
	"pkg/kubelet/eviction/zz_record.go":    "eviction/record.go",
}

func main() {
	flag.Parse()
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(out io.Writer) error {
	dir, err := os.MkdirTemp("", "record-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	r := &recording{root: filepath.Join("..", ".."), dir: dir, fresh: filepath.Join(dir, "new")}
	if *output != "" {
		if r.fresh, err = filepath.Abs(*output); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(r.fresh, 0o750); err != nil {
		return err
	}
	if err := r.build(); err != nil {
		return err
	}
	if err := r.record(out); err != nil {
		return err
	}
	different, err := r.replay()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "differences: %d\n", different)
	if different > 0 {
		return errors.New("the shim's core and the kubelet differ")
	}
	return err
}

// recording is one run: from the known vectors to new ones in a folder.
type recording struct {
	root, dir, fresh string
}

// build builds the recorder with the kubelet's module, and with files of our own
// added to its packages. Go overlays nothing in the module cache, so the module
// is reached through a link; one that stays, or nothing built were found again.
func (r *recording) build() error {
	module, err := command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		return fmt.Errorf("find the kubelet's module: %w", err)
	}
	folder, err := filepath.Abs(filepath.Join(r.root, "bin", "record"))
	if err != nil {
		return err
	}
	link := filepath.Join(folder, "kubernetes")
	if err := relink(strings.TrimSpace(string(module)), link); err != nil {
		return err
	}
	for name, more := range map[string]string{"go.mod": "\nreplace k8s.io/kubernetes => " + link + "\n", "go.sum": ""} {
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, name), append(data, more...), 0o600); err != nil {
			return err
		}
	}
	overlay, err := r.overlay(link)
	if err != nil {
		return err
	}
	build := command("go", "test", "-c", "-modfile", filepath.Join(folder, "go.mod"), "-tags", "record", "-overlay", overlay,
		"-ldflags=-s -w", "-o", filepath.Join(r.dir, "recorder.test"), "./record/recorder")
	if text, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the recorder: %w\n%s", err, text)
	}
	return nil
}

// relink replaces a link.
func relink(to, link string) error {
	if err := os.MkdirAll(filepath.Dir(link), 0o750); err != nil {
		return err
	}
	if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.Symlink(to, link)
}

func (r *recording) overlay(module string) (string, error) {
	replace := map[string]string{}
	for name, source := range added {
		path, err := filepath.Abs(filepath.Join("record", "testdata", source))
		if err != nil {
			return "", err
		}
		replace[filepath.Join(module, name)] = path
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(r.dir, "overlay.json")
	return path, os.WriteFile(path, data, 0o600)
}

// record checks the recorder with the known vectors, and records new ones.
func (r *recording) record(out io.Writer) error {
	for _, test := range []string{"TestReproduce", "TestRecord"} {
		play := command(filepath.Join(r.dir, "recorder.test"), "-test.run", test, "-test.v", "-test.timeout", "60m",
			"-output", r.fresh, "-seed", fmt.Sprint(*seed), "-n", fmt.Sprint(*number))
		text, err := play.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s: %w\n%s", test, err, text)
		}
		for line := range strings.Lines(string(text)) {
			if _, counts, found := strings.Cut(line, "_test.go:"); found {
				_, counts, _ = strings.Cut(counts, ": ")
				if _, err := io.WriteString(out, counts); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// replay runs the tests that replay vectors over the new ones and returns how
// many differ.
func (r *recording) replay() (int, error) {
	different := map[string]bool{}
	ids := regexp.MustCompile(fmt.Sprintf(`[a-z-]+-%d-\d+`, *seed))
	for _, pkg := range replays {
		binary := filepath.Join(r.dir, pkg+".test")
		build := command("go", "test", "-c", "-o", binary, "./runtime/"+pkg)
		build.Dir = r.root
		if text, err := build.CombinedOutput(); err != nil {
			return 0, fmt.Errorf("build the replay: %w\n%s", err, text)
		}
		play := command(binary, "-test.run", "Conformance", "-test.timeout", "60m")
		play.Env = append(os.Environ(), recordings.FolderEnv+"="+r.fresh)
		text, err := play.CombinedOutput()
		if err == nil {
			continue
		}
		found := ids.FindAll(text, -1)
		fmt.Fprintf(os.Stderr, "%s\n", bytes.TrimSpace(text))
		if len(found) == 0 {
			return 0, fmt.Errorf("replay in runtime/%s: %w", pkg, err)
		}
		for _, id := range found {
			different[string(id)] = true
		}
	}
	return len(different), nil
}

// command is one of our own.
func command(name string, args ...string) *exec.Cmd {
	return exec.Command(name, args...)
}
