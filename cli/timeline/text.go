// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"fmt"
	"strings"
	"time"

	"github.com/managedworkload/managedworkload/cli/terminal"
)

// barWidth is how many characters stand for a grace period.
const barWidth = 24

// glyphs stand for the stages in a bar, colours for the kinds.
var (
	glyphs  = map[Stage]string{StageHook: "▒", StageWait: "░", StageStop: "█", StageLeft: "·"}
	colours = map[Kind]terminal.Colour{
		KindGraceful: terminal.Green, KindForced: terminal.Red, KindUnderWay: terminal.Blue, KindUnclear: terminal.Yellow, KindExit: terminal.Yellow,
	}
	signs = map[Kind]string{KindGraceful: "●", KindForced: "✗", KindUnderWay: "…", KindUnclear: "?", KindExit: "▲"}
)

// WriteText prints a lane for each container, with a line for each kill and exit. A bar is
// the grace period: what of it the hook, the wait and the stop took, and what was left.
func (t *Timeline) WriteText(p *terminal.Printer) error {
	if len(t.Lanes) == 0 {
		if t.Older == 0 {
			p.Printf("No kill or exit is recorded.\n")
		}
		return t.writeOmitted(p)
	}
	for _, lane := range t.Lanes {
		p.Printf("%s  %s\n", p.Paint(terminal.Bold, lane.Node), lane.Container)
		for i := range lane.Marks {
			writeMark(p, &lane.Marks[i])
		}
	}
	p.Printf("%s\n", p.Paint(terminal.Faint, "▒ preStop hook  ░ waits for its turn  █ signal sent  · grace left"))
	p.Printf("%s\n", p.Paint(terminal.Faint, "● in time  ✗ forced  … under way  ? failed, stopped before, or not known  ▲ exit without a kill"))
	return t.writeOmitted(p)
}

func (t *Timeline) writeOmitted(p *terminal.Printer) error {
	for _, sentence := range t.Sentences() {
		p.Printf("%s\n", sentence)
	}
	return p.Err()
}

func writeMark(p *terminal.Printer, m *Mark) {
	bar := m.bar()
	sign := p.Paint(colours[m.Kind], signs[m.Kind])
	p.Printf("  %s  %s%s%s  %s\n", m.Time.Format(time.DateTime), p.Paint(colours[m.Kind], bar), sign, strings.Repeat(" ", barWidth-len([]rune(bar))), m.line())
}

// line says in words what the bar shows.
func (m *Mark) line() string {
	parts := []string{m.Cause}
	if m.Hook != "" {
		parts = append(parts, m.Hook)
	}
	if m.Signal != "" {
		parts = append(parts, m.Signal)
	}
	if m.Kind != KindExit {
		parts = append(parts, fmt.Sprintf("%ds of %ds used, %ds left", m.UsedSeconds, m.GraceSeconds, m.LeftSeconds))
	}
	return strings.Join(append(parts, m.Outcome), "; ")
}

// bar is the grace period in characters; each stage that took time has one at least.
func (m *Mark) bar() string {
	if len(m.Segments) == 0 {
		return ""
	}
	begin, end := m.Segments[0].From, m.Segments[len(m.Segments)-1].To
	total := end.Sub(begin)
	var b strings.Builder
	cells := 0
	for i, s := range m.Segments {
		most := barWidth - cells - (len(m.Segments) - 1 - i)
		n := min(max(int(float64(barWidth)*float64(s.To.Sub(s.From))/float64(total)+0.5), 1), most)
		b.WriteString(strings.Repeat(glyphs[s.Stage], n))
		cells += n
	}
	return b.String()
}
