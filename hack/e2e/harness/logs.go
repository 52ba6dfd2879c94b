// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// logDir is the folder of the pod's logs on the node.
func (w *Workload) logDir(nw *v1alpha1.NodeWorkload) string {
	return filepath.Join(w.node.PodLogDir(), nw.Namespace+"_"+nw.Name+"_"+string(nw.UID))
}

// Log is what a container wrote so far, in its nth run (from 0).
func (w *Workload) Log(container string, run int) string {
	w.t.Helper()
	return w.logOf(w.Node(), container, run)
}

func (w *Workload) logOf(nw *v1alpha1.NodeWorkload, container string, run int) string {
	w.t.Helper()
	file := filepath.Join(w.logDir(nw), container, fmt.Sprintf("%d.log", run))
	data, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.t.Fatalf("read log: %v", err)
	}
	var text strings.Builder
	for line := range strings.Lines(string(data)) {
		// time stream tag content; tag P says that the line continues.
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 4)
		if len(fields) < 4 {
			continue // not written to its end yet
		}
		text.WriteString(fields[3])
		if fields[2] == "F" {
			text.WriteByte('\n')
		}
	}
	return text.String()
}

// AwaitLog waits until a container has written a text in its nth run, and
// returns all that it wrote.
func (w *Workload) AwaitLog(container string, run int, text string) string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), Timeout)
	defer cancel()
	w.Await("the NodeWorkload is there", func(*v1alpha1.NodeWorkload) bool { return true })
	for {
		log := w.Log(container, run)
		if strings.Contains(log, text) {
			return log
		}
		select {
		case <-ctx.Done():
			w.t.Fatalf("container %s did not write %q; status %q, its log:\n%s\n%s", container, text, w.Node().Status.Summary, log, w.env.tails())
		case <-time.After(20 * time.Millisecond):
		}
	}
}
