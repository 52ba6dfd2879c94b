// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/hack/e2e/harness"
)

const (
	testImage = "managedworkload.dev/testprogram:v1"
	// dirVolume is the test's folder.
	dirVolume = `{name: dir, hostPath: {path: $DIR}}`
	dirMount  = `{name: dir, mountPath: /dir}`
)

// show is a container's args that run commands (in words that single spaces
// part), print what they say or why they fail, and run on.
func show(commands ...string) string {
	var words []string
	for i, command := range commands {
		words = append(words, "echo", marker(i), ",", "try")
		words = append(words, strings.Split(command, " ")...)
		words = append(words, ",")
	}
	words = append(words, "echo", marker(len(commands)), ",", "serve")
	text, err := json.Marshal(append([]string{"seq"}, words...))
	if err != nil {
		panic(err) // strings can always be written
	}
	return string(text)
}

func marker(i int) string { return fmt.Sprintf("@@%d@@", i) }

// shown is what the commands of show said in the container's first run.
func shown(t *testing.T, w *harness.Workload, container string, commands ...string) map[string]string {
	t.Helper()
	return shownIn(t, w, container, 0, commands...)
}

// shownIn is shown for the container's nth run.
func shownIn(t *testing.T, w *harness.Workload, container string, run int, commands ...string) map[string]string {
	t.Helper()
	log := w.AwaitLog(container, run, marker(len(commands)))
	found := map[string]string{}
	for i, command := range commands {
		_, rest, _ := strings.Cut(log, marker(i)+"\n")
		text, _, _ := strings.Cut(rest, marker(i+1))
		found[command] = strings.TrimSuffix(text, "\n")
	}
	return found
}

// status is one line of what the command id printed.
func status(t *testing.T, id, key string) string {
	t.Helper()
	for line := range strings.Lines(id) {
		if k, value, _ := strings.Cut(line, ":"); k == key {
			return strings.Join(strings.Fields(value), " ")
		}
	}
	t.Errorf("no line %s in %q", key, id)
	return ""
}

// mountAt is the line of a mount table (mountinfo) about a mount point.
func mountAt(t *testing.T, table, point string) (options, kind, super string) {
	t.Helper()
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		for i, f := range fields {
			if f == "-" && len(fields) >= i+4 && fields[4] == point {
				options, kind, super = strings.Join(fields[5:i], ","), fields[i+1], fields[i+3]
			}
		}
	}
	if kind == "" {
		t.Errorf("nothing is mounted at %s:\n%s", point, table)
	}
	return options, kind, super
}

func has(list, element string) bool {
	for e := range strings.SplitSeq(list, ",") {
		if e == element {
			return true
		}
	}
	return false
}

// hostLink reads a link of the node, such as a namespace in /proc/self/ns.
func hostLink(t *testing.T, path string) string {
	t.Helper()
	target, err := os.Readlink(path)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// pidOf is the process of a running container, as the node sees it.
func pidOf(t *testing.T, w *harness.Workload, container string) int {
	t.Helper()
	cri, err := env.Stack.CRI()
	if err != nil {
		t.Fatal(err)
	}
	defer cri.Close() //nolint:errcheck // Only a connection.
	for _, c := range w.Node().Status.ContainerStatuses {
		if c.Name != container {
			continue
		}
		_, id, _ := strings.Cut(c.ContainerID, "://")
		response, err := cri.ContainerStatus(t.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: id, Verbose: true})
		if err != nil {
			t.Fatal(err)
		}
		var info struct {
			PID int `json:"pid"`
		}
		if err := json.Unmarshal([]byte(response.GetInfo()["info"]), &info); err != nil {
			t.Fatal(err)
		}
		return info.PID
	}
	t.Fatalf("no container %s", container)
	return 0
}

// write makes a file in the test's folder.
func write(t *testing.T, w *harness.Workload, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.Dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// expect compares what commands said.
func expect(t *testing.T, got map[string]string, want map[string]string) {
	t.Helper()
	for command, text := range want {
		said, ran := got[command]
		if !ran {
			t.Errorf("%q was not run", command)
		} else if said != text {
			t.Errorf("%s: %q, want %q", command, said, text)
		}
	}
}

func contains(t *testing.T, what, text, part string) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("%s: %q, want %q in it", what, text, part)
	}
}
