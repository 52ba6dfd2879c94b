// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// WriteJSON writes a preview as one indented JSON object.
func WriteJSON(out io.Writer, p Preview) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(p); err != nil {
		return fmt.Errorf("write the preview: %w", err)
	}
	return nil
}

// WriteTable writes a preview for people.
func WriteTable(out io.Writer, p Preview) error {
	var text strings.Builder
	text.WriteString(header(p) + "\n\n")
	writeRows(&text, p)
	text.WriteString(summary(p) + "\n")
	if p.Undecided != "" {
		text.WriteString("Not decided: " + oneLine(p.Undecided) + ".\n")
	}
	section(&text, "The shim would not begin yet:", p.Blocked)
	section(&text, "Notes:", p.Notes)
	if _, err := io.WriteString(out, text.String()); err != nil {
		return fmt.Errorf("write the preview: %w", err)
	}
	return nil
}

// writeRows writes a line for each step and each container without one.
func writeRows(text *strings.Builder, p Preview) {
	if len(p.Steps)+len(p.Unaffected) == 0 {
		return
	}
	table := tabwriter.NewWriter(text, 0, 0, 2, ' ', 0)
	row(table, "ACTION", "CONTAINER", "TRIGGER", "GRACE", "PRESTOP", "MESSAGE")
	for _, s := range p.Steps {
		row(table, actionWords[s.Action], containerCell(s.Container, s.Kind), string(s.Trigger), graceCell(s.Grace), s.PreStop, messageCell(s))
	}
	for _, u := range p.Unaffected {
		row(table, stateWord(u.State), containerCell(u.Container, u.Kind), "", "", "", withFields(u.Reason, u.Changed))
	}
	// A strings.Builder takes everything.
	_ = table.Flush()
	text.WriteString("\n")
}

// row writes the cells of one line; a dash stands for an empty one.
func row(out io.Writer, cells ...string) {
	for i := range cells {
		cells[i] = cmp.Or(oneLine(cells[i]), "-")
	}
	_, _ = fmt.Fprintln(out, strings.Join(cells, "\t"))
}

// oneLine keeps what a person wrote from breaking the table.
func oneLine(s string) string {
	return strings.NewReplacer("\n", " ", "\t", " ", "\r", " ").Replace(s)
}

func header(p Preview) string {
	uid := string(p.NodeWorkload.UID)
	if uid == "" {
		uid = "none"
	}
	from := "as the runtime reports it"
	if p.Observed == SourceAssumed {
		from = "assumed to run as the old template says"
	}
	return fmt.Sprintf("NodeWorkload %s/%s (UID %s) on node %s, %s",
		p.NodeWorkload.Namespace, p.NodeWorkload.Name, uid, p.NodeWorkload.NodeName, from)
}

var actionWords = map[Action]string{
	ActionKill:          "kill",
	ActionStopSandbox:   "stop sandbox",
	ActionRemove:        "remove",
	ActionCreateSandbox: "create sandbox",
	ActionResize:        "resize",
	ActionPull:          "pull",
	ActionStart:         "start",
}

// stateWord says what becomes of a container that nothing is done to.
func stateWord(s plan.ContainerState) string {
	switch s {
	case plan.ContainerRunning:
		return "no kill"
	case "":
		return "wait"
	case plan.ContainerCreated, plan.ContainerExited, plan.ContainerUnknown:
	}
	return "leave"
}

var kindWords = map[Kind]string{
	KindInit:      " (init)",
	KindSidecar:   " (sidecar)",
	KindEphemeral: " (ephemeral)",
	KindRemoved:   " (not in the template)",
}

func containerCell(name string, kind Kind) string { return name + kindWords[kind] }

// graceCell shows a grace period and where it comes from.
func graceCell(g *Grace) string {
	if g == nil {
		return ""
	}
	source := string(g.Source)
	if g.Recorded {
		source += ", recorded"
	}
	if g.StopSeconds != g.Seconds {
		source += fmt.Sprintf("; stops with %ds", g.StopSeconds)
	}
	return fmt.Sprintf("%ds (%s)", g.Seconds, source)
}

func messageCell(s Step) string {
	message := withFields(s.Message, s.Changed)
	if len(s.WaitsFor) > 0 {
		message += "; stopped after " + strings.Join(s.WaitsFor, ", ")
	}
	return message
}

func withFields(message string, fields []string) string {
	if len(fields) == 0 {
		return message
	}
	return message + ": " + strings.Join(fields, ", ")
}

// summary counts.
func summary(p Preview) string {
	switch {
	case len(p.Steps) > 0:
	case p.Undecided != "":
		return "Nothing to do for the shim."
	default:
		return "Nothing to do."
	}
	counts := map[Action]int{}
	for _, s := range p.Steps {
		counts[s.Action]++
	}
	running := 0
	for _, u := range p.Unaffected {
		if u.State == plan.ContainerRunning {
			running++
		}
	}
	resized := ""
	if n := counts[ActionResize]; n > 0 {
		resized = fmt.Sprintf(", %d of them resized", n)
	}
	return fmt.Sprintf("%d to kill, %d to start, %d kept running%s.", counts[ActionKill], counts[ActionStart], running, resized)
}

func section(out *strings.Builder, title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	out.WriteString("\n" + title + "\n")
	for _, line := range lines {
		out.WriteString("- " + oneLine(line) + "\n")
	}
}
