// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/managedworkload/managedworkload/hack/faults/history"
)

// collect makes the history once everything has ended.
func (c *campaign) collect(ctx context.Context, undrained error) (*history.History, error) {
	left, shims, err := c.awaitNothingLeft(ctx)
	if err != nil {
		return nil, fmt.Errorf("look for what is left: %w", err)
	}
	if undrained != nil {
		left = append(left, "workloads that do not end: "+undrained.Error())
	}
	h := &history.History{Requests: c.requests.list(), Calls: c.calls.list(), Faults: c.made.list()}
	h.LeftBehind, h.EmptyShims = left, shims
	c.observer.fill(h)
	h.Lives, err = readLives(c.stack.Scratch())
	return h, err
}

// readLives reads all journals: a folder for each workload, a file for each
// instance.
func readLives(dir string) ([]history.Life, error) {
	files, err := filepath.Glob(filepath.Join(dir, "w*", "*"))
	if err != nil {
		return nil, err
	}
	var lives []history.Life
	for _, file := range files {
		container, id, found := strings.Cut(filepath.Base(file), ".")
		if !found || id == "lock" || container == "fail" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		life, found, err := history.ParseLife(filepath.Base(filepath.Dir(file)), container, id, string(text))
		if err != nil {
			return nil, err
		}
		if found {
			lives = append(lives, life)
		}
	}
	return lives, nil
}

// keep saves the history, and with violations what explains them.
func (c *campaign) keep(ctx context.Context, h *history.History, everything bool) error {
	if err := os.MkdirAll(c.opts.Keep, 0o755); err != nil {
		return err
	}
	data, err := json.MarshalIndent(h, "", " ")
	if err != nil {
		return err
	}
	errs := []error{os.WriteFile(filepath.Join(c.opts.Keep, "history.json"), data, 0o644)}
	if !everything {
		return errs[0]
	}
	for _, name := range []string{"logs", "scratch"} {
		errs = append(errs, exec.CommandContext(ctx, "cp", "-a", filepath.Join(c.stack.StateDir(), name), c.opts.Keep).Run())
	}
	return errors.Join(errs...)
}

// Missing are the kinds of faults that occurred less often than a campaign of that many
// makes them.
func (r *Result) Missing(faults int) (kinds []Kind) {
	for _, kind := range Kinds {
		if faults >= least*len(Kinds) && r.Faults[kind] < least {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// Print writes the result for people. Its last line is the verdict.
func (r *Result) Print(w io.Writer, seed uint64) error {
	var text strings.Builder
	fmt.Fprintf(&text, "seed: %d\nfaults:\n", seed)
	total := 0
	for _, kind := range Kinds {
		fmt.Fprintf(&text, "  %3d %s\n", r.Faults[kind], kind)
		total += r.Faults[kind]
	}
	fmt.Fprintf(&text, "%d faults, %d instances of containers, %d of them killed, %d kill records compared, in %s\n",
		total, r.Lives, r.Kills, r.Judged, r.Took.Round(time.Second))
	fmt.Fprintf(&text, "kills judged outside of outages: %d\n", r.Outside)
	for _, reason := range slices.Sorted(maps.Keys(r.Exempt)) {
		fmt.Fprintf(&text, "exempt, %s: %d\n", reason, r.Exempt[reason])
	}
	for _, v := range r.Violations {
		fmt.Fprintf(&text, "VIOLATION %s: %s\n", v.Rule, v.Text)
	}
	fmt.Fprintf(&text, "violations: %d\n", len(r.Violations))
	_, err := io.WriteString(w, text.String())
	return err
}
