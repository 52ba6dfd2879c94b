// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/managedworkload/managedworkload/api/printable"
)

//go:embed page.html
var pageText string

// page escapes all text by where it stands.
var page = template.Must(template.New("page").Parse(pageText))

// Heights in pixels of a lane and of the axis above the lanes; the page has them too.
const (
	laneHeight = 68
	axisHeight = 56
)

// What page.html shows.
type (
	pageData struct {
		Namespace, Name, Made string
		Kills, Forced, Exits  int
		Nodes                 int
		Lanes                 []laneData
		Clusters              []clusterData
		Gaps                  []gapData
		Width, Height         float64
		Entries               []entryData
		Omitted               []string
	}
	laneData struct {
		Node, Container string
		First           bool // of its node
		Y, Middle       float64
		Marks           []markData
	}
	clusterData struct {
		X, Width  float64
		Day, Time string
		Ticks     []tickData
	}
	tickData struct {
		X     float64
		Label string
	}
	gapData struct {
		X     float64
		Label string
	}
	markData struct {
		ID                  int
		Kind                Kind
		X, End, Y           float64
		Bars                []barData
		Above, Below, Title string
	}
	barData struct {
		Stage    Stage
		X, Width float64
	}
	entryData struct {
		ID                             int
		Kind                           Kind
		Node, Container, Time, Summary string
		Words                          []string
		Bars                           []barData
	}
)

// WriteHTML prints a page with the picture and all of it in words, the newest first. The
// page loads nothing.
func (t *Timeline) WriteHTML(w io.Writer) error {
	d := t.data()
	if err := page.Execute(w, d); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

func (t *Timeline) data() *pageData {
	s := newScale(t)
	d := &pageData{
		Namespace: printable.Line(t.Namespace), Name: printable.Line(t.Name), Made: t.Now.UTC().Format(time.RFC1123), Omitted: t.Sentences(),
		Width: s.width, Height: float64(len(t.Lanes)*laneHeight) + axisHeight,
	}
	d.addScale(s)
	nodes := map[string]bool{}
	for i := range t.Lanes {
		lane := &t.Lanes[i]
		y := float64(i * laneHeight)
		row := laneData{Node: printable.Line(lane.Node), Container: printable.Line(lane.Container), First: !nodes[lane.Node], Y: y, Middle: y + laneHeight/2}
		nodes[lane.Node] = true
		for j := range lane.Marks {
			until := s.width
			if j+1 < len(lane.Marks) {
				until = s.at(lane.Marks[j+1].Time)
			}
			row.Marks = append(row.Marks, d.addMark(s, lane, &lane.Marks[j], row.Middle, until))
		}
		d.Lanes = append(d.Lanes, row)
	}
	d.Nodes = len(nodes)
	slices.SortStableFunc(d.Entries, func(a, b entryData) int { return strings.Compare(b.Time, a.Time) })
	return d
}

// addScale adds the axis: the time where each cluster begins, ticks, and what is left out.
func (d *pageData) addScale(s *scale) {
	day := ""
	for i, c := range s.clusters {
		data := clusterData{X: c.x, Width: c.width, Time: c.from.Format(time.TimeOnly)}
		if today := c.from.Format("Mon 2 Jan 2006"); today != day {
			day, data.Day = today, today
		}
		step := tickStep(c.to.Sub(c.from), c.width)
		for at := c.from.Add(step); step > 0 && !at.After(c.to); at = at.Add(step) {
			data.Ticks = append(data.Ticks, tickData{s.at(at), "+" + duration.HumanDuration(at.Sub(c.from))})
		}
		d.Clusters = append(d.Clusters, data)
		if i > 0 {
			gap := c.from.Sub(s.clusters[i-1].to)
			d.Gaps = append(d.Gaps, gapData{c.x - gapWidth/2, duration.HumanDuration(gap)})
		}
	}
}

// tickStep is the time between two ticks, so that their labels have room.
func tickStep(length time.Duration, width float64) time.Duration {
	const room = 58
	for _, step := range []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute,
		2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 3 * time.Hour, 12 * time.Hour, 24 * time.Hour} {
		if width*float64(step)/float64(max(length, 1)) >= room {
			return step
		}
	}
	return 0
}

// characterWidth is about that of the labels, labelGap what is between two of them, in
// pixels.
const (
	characterWidth = 6.1
	labelGap       = 8
)

// fit cuts a label to the room that it has.
func fit(text string, room float64) string {
	runes := []rune(printable.Line(text))
	most := int(room / characterWidth)
	switch {
	case len(runes) <= most:
		return string(runes)
	case most < 4:
		return ""
	}
	return string(runes[:most-1]) + "…"
}

func (d *pageData) addMark(s *scale, lane *Lane, m *Mark, y, until float64) markData {
	id := len(d.Entries) + 1
	x := s.at(m.Time)
	data := markData{ID: id, Kind: m.Kind, X: x, End: x, Y: y, Title: printable.Line(lane.Container + " on " + lane.Node + ": " + m.line())}
	for _, seg := range m.Segments {
		from, to := s.at(seg.From), s.at(seg.To)
		data.Bars = append(data.Bars, barData{seg.Stage, from, max(to-from, 1)})
		if seg.Stage != StageLeft {
			data.End = max(to, x+3)
		}
	}
	below := m.Outcome
	switch m.Kind {
	case KindExit:
		d.Exits++
	case KindForced:
		d.Forced++
		below = m.short()
	case KindGraceful, KindUnderWay, KindUnclear:
		below = m.short()
	}
	if m.Kind != KindExit {
		d.Kills++
	}
	data.Above, data.Below = fit(m.Cause, until-x-labelGap), fit(below, until-x-labelGap)
	d.Entries = append(d.Entries, entryData{
		ID: id, Kind: m.Kind, Node: printable.Line(lane.Node), Container: printable.Line(lane.Container),
		Time: m.Time.Format(time.RFC3339), Summary: printable.Line(m.Cause + ", " + m.Outcome), Words: cleanAll(m.Words), Bars: m.share(),
	})
	return data
}

// short is signal and grace in a few words.
func (m *Mark) short() string {
	text := fmt.Sprintf("%d of %ds", m.UsedSeconds, m.GraceSeconds)
	if m.Signal != "" {
		text = m.Signal + " · " + text
	}
	if m.Kind == KindForced {
		text += " · forced"
	}
	return text
}

func cleanAll(texts []string) []string {
	cleaned := make([]string, 0, len(texts))
	for _, text := range texts {
		cleaned = append(cleaned, printable.Line(text))
	}
	return cleaned
}

// share is the bar of an entry, in percent of the grace period.
func (m *Mark) share() []barData {
	if len(m.Segments) == 0 {
		return nil
	}
	begin := m.Segments[0].From
	total := float64(m.end().Sub(begin))
	var bars []barData
	for _, s := range m.Segments {
		bars = append(bars, barData{s.Stage, 100 * float64(s.From.Sub(begin)) / total, 100 * float64(s.To.Sub(s.From)) / total})
	}
	return bars
}
