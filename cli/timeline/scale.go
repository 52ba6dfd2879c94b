// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"slices"
	"time"
)

// Lengths of the picture, in pixels.
const (
	gapWidth        = 48
	minClusterWidth = 150
	// clustersWidth is how wide all clusters are together, if that is enough.
	clustersWidth = 760
	margin        = 16
)

// cluster is a time in which something happened. Between two clusters time is left out.
type cluster struct {
	from, to time.Time
	x, width float64
}

// scale places times in the picture: what happened is drawn to scale, and idle time is
// left out.
type scale struct {
	clusters []cluster
	width    float64
}

func (m *Mark) end() time.Time {
	if len(m.Segments) == 0 {
		return m.Time
	}
	return m.Segments[len(m.Segments)-1].To
}

func newScale(t *Timeline) *scale {
	var spans []cluster
	for _, lane := range t.Lanes {
		for i := range lane.Marks {
			spans = append(spans, cluster{from: lane.Marks[i].Time, to: lane.Marks[i].end()})
		}
	}
	slices.SortFunc(spans, func(a, b cluster) int { return cmp.Or(a.from.Compare(b.from), a.to.Compare(b.to)) })
	s := &scale{}
	for _, span := range spans {
		last := len(s.clusters) - 1
		if last >= 0 && span.from.Sub(s.clusters[last].to) <= s.clusters[last].join() {
			if span.to.After(s.clusters[last].to) {
				s.clusters[last].to = span.to
			}
			continue
		}
		s.clusters = append(s.clusters, span)
	}
	s.place()
	return s
}

// join is how long nothing may happen in a cluster.
func (c *cluster) join() time.Duration { return max(c.to.Sub(c.from)/4, 20*time.Second) }

// place gives each cluster a width by its duration.
func (s *scale) place() {
	total := time.Duration(0)
	for _, c := range s.clusters {
		total += c.to.Sub(c.from)
	}
	x := float64(margin)
	for i := range s.clusters {
		c := &s.clusters[i]
		c.x, c.width = x, minClusterWidth
		if total > 0 {
			c.width = max(c.width, clustersWidth*float64(c.to.Sub(c.from))/float64(total))
		}
		x += c.width + gapWidth
	}
	s.width = max(x-gapWidth, 0) + margin
}

// at is where a time is.
func (s *scale) at(t time.Time) float64 {
	for i := range s.clusters {
		c := &s.clusters[i]
		if t.After(c.to) && i < len(s.clusters)-1 && !t.Before(s.clusters[i+1].from) {
			continue
		}
		if !c.to.After(c.from) {
			return c.x
		}
		part := float64(t.Sub(c.from)) / float64(c.to.Sub(c.from))
		return c.x + c.width*min(max(part, 0), 1)
	}
	return margin
}
