// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// hookSignal is what preStop hooks send to the program.
const hookSignal = "signal SIGUSR1"

// ParseLife reads the journal of one instance. A last line that was cut off by
// the process's end is ignored. A journal without a start is not a life.
func ParseLife(workload, container, id, text string) (life Life, found bool, err error) {
	life = Life{Workload: workload, Container: container, ID: id, Sidecar: strings.HasPrefix(container, "sidecar")}
	for line := range strings.Lines(text) {
		line, whole := strings.CutSuffix(line, "\n")
		if !whole {
			break
		}
		stamp, entry, _ := strings.Cut(line, " ")
		at, err := time.Parse(time.RFC3339Nano, stamp)
		if err != nil {
			return life, false, fmt.Errorf("journal of %s/%s %s: line %q: %w", workload, container, id, line, err)
		}
		if err := life.add(at, entry); err != nil {
			return life, false, fmt.Errorf("journal of %s/%s %s: %w", workload, container, id, err)
		}
	}
	return life, !life.Start.IsZero(), nil
}

func (l *Life) add(at time.Time, entry string) error {
	if l.Start.IsZero() {
		l.Start = at
	}
	if at.After(l.Last) {
		l.Last = at
	}
	switch {
	case strings.HasPrefix(entry, "started "):
		return l.readMark(entry)
	case strings.HasPrefix(entry, "not alone"):
		l.NotAlone = true
	case entry == hookSignal && l.Hook.IsZero():
		l.Hook = at
	case entry == "signal SIGTERM":
		if l.Term.IsZero() {
			l.Term = at
		}
		l.Terms++
	case strings.HasPrefix(entry, "stopped code="):
		code, err := strconv.Atoi(strings.TrimPrefix(entry, "stopped code="))
		l.Stopped, l.Code = true, code
		return err
	}
	return nil
}

// Mark is the text that the program shows when it starts: which object it
// belongs to, and which template made it.
func Mark(uid, incarnation, revision, graceSeconds string) string {
	return strings.Join([]string{uid, incarnation, revision, graceSeconds}, "/")
}

func (l *Life) readMark(entry string) error {
	_, rest, found := strings.Cut(entry, "--mark=")
	mark, _, ended := strings.Cut(rest, `"`)
	fields := strings.Split(mark, "/")
	if !found || !ended || len(fields) != 4 {
		return fmt.Errorf("no mark in %q", entry)
	}
	numbers := make([]int, 3)
	for i := range numbers {
		n, err := strconv.Atoi(fields[i+1])
		if err != nil {
			return fmt.Errorf("mark %q: %w", mark, err)
		}
		numbers[i] = n
	}
	l.UID, l.Incarnation, l.Revision = fields[0], numbers[0], numbers[1]
	l.Grace = time.Duration(numbers[2]) * time.Second
	return nil
}
