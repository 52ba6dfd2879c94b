// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// patience is how long a step may take: far longer than any does.
// The kubelet lets files follow an object within 90 s.
const patience = 150 * time.Second

// record is what is known about one side of a pair once it is over.
type record struct {
	journals map[string][]entry
	// reports are what containers saw from inside, by container and moment.
	reports map[string]map[string]string
	lives   []life
	events  []corev1.Event
	// states are the settled status at each step and the last one seen.
	states []state
	// asked is when the API was asked to delete, deleted when the node's agent
	// could see it: a ManagedWorkload's deletion goes through the manager.
	asked, deleted   time.Time
	history          []sighting
	failure          string // what did not come to pass
	dir, uid, object string
	node             string
	own              string // name of the side's own objects
}

type state struct {
	step   string
	status corev1.PodStatus
}

// entry is a line of a container's journal.
type entry struct {
	at   time.Time
	text string
}

// pairing is one side of a pair under way.
type pairing struct {
	scenario *scenario
	side     side
	kube     client.Client
	name     string
	dir      string
	try      int // the first is 1
	events   *eventLags
	rec      *record
}

func (p *pairing) latest() corev1.PodStatus {
	list, _, _ := p.side.seen().all(p.name)
	if len(list) == 0 {
		return corev1.PodStatus{}
	}
	return list[len(list)-1].status
}

func (p *pairing) uid() string {
	list, _, _ := p.side.seen().all(p.name)
	if len(list) == 0 {
		return ""
	}
	return string(list[0].uid)
}

// run carries the scenario out. What does not happen is part of the record.
func (p *pairing) run(ctx context.Context, lives *lives) (*record, error) {
	p.rec = &record{dir: p.dir, node: p.side.nodeName(), own: p.own()}
	if err := p.start(ctx); err != nil {
		return nil, fmt.Errorf("start %s on the %s: %w", p.name, p.side.name(), err)
	}
	for _, s := range p.scenario.steps {
		if err := p.step(ctx, s); err != nil {
			p.rec.failure = fmt.Sprintf("step %q: %v", s.name, err)
			break
		}
	}
	if err := p.end(ctx); err != nil {
		return nil, fmt.Errorf("end %s on the %s: %w", p.name, p.side.name(), err)
	}
	return p.rec, p.collect(ctx, lives)
}

func (p *pairing) start(ctx context.Context) error {
	// Containers of any user write there.
	if err := errors.Join(os.MkdirAll(p.dir, 0o777), os.Chmod(p.dir, 0o777)); err != nil {
		return err
	}
	for _, name := range p.scenario.prepare {
		if err := os.WriteFile(filepath.Join(p.dir, name), nil, 0o600); err != nil {
			return err
		}
	}
	if p.scenario.own != nil {
		if err := makeOwn(p.scenario.own)(ctx, p); err != nil {
			return err
		}
	}
	spec, err := p.ownSpec()
	if err != nil {
		return err
	}
	spec.Volumes = append(spec.Volumes, corev1.Volume{Name: "j", VolumeSource: corev1.VolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: p.dir},
	}})
	return p.side.create(ctx, p.name, p.scenario.meta, *spec)
}

func (p *pairing) step(ctx context.Context, s step) error {
	if err := p.await(ctx, func(one sighting) bool { return !one.gone && s.until(&one.status) }); err != nil {
		return err
	}
	if !s.quick {
		// Another try meets the probes at another point of their period.
		if err := pause(ctx, settle+time.Duration(p.try-1)*350*time.Millisecond); err != nil {
			return err
		}
		p.rec.states = append(p.rec.states, state{s.name, p.latest()})
	}
	if s.do == nil {
		return nil
	}
	return s.do(ctx, p)
}

// await waits for a sighting, the latest one included.
func (p *pairing) await(ctx context.Context, done func(sighting) bool) error {
	timeout, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		list, change, err := p.side.seen().all(p.name)
		if err != nil {
			return err
		}
		if len(list) > 0 && done(list[len(list)-1]) {
			return nil
		}
		select {
		case <-timeout.Done():
			return errors.New("did not happen")
		case <-change:
		}
	}
}

// end deletes and waits until it is gone.
func (p *pairing) end(ctx context.Context) error {
	p.rec.asked = time.Now()
	if err := p.side.remove(ctx, p.name, p.scenario.grace); err != nil {
		return err
	}
	if s := p.scenario.shorten; s != nil {
		if err := pause(ctx, s.after); err != nil {
			return err
		}
		if err := p.side.remove(ctx, p.name, &s.grace); err != nil {
			return err
		}
	}
	if err := p.await(ctx, func(one sighting) bool { return one.gone }); err != nil {
		return fmt.Errorf("wait until it is gone: %w", err)
	}
	list, _, _ := p.side.seen().all(p.name)
	last := list[len(list)-1]
	p.rec.history = list
	p.rec.deleted = last.at
	for _, one := range list {
		if one.deleting {
			p.rec.deleted = one.at
			break
		}
	}
	p.rec.states = append(p.rec.states, state{"end", last.status})
	return nil
}

// collect reads what the containers, the runtime and the API have about it.
func (p *pairing) collect(ctx context.Context, lives *lives) error {
	p.rec.uid = p.uid()
	if err := p.events.await(ctx, p.side.name(), p.rec.uid, time.Now()); err != nil {
		return err
	}
	p.rec.lives = lives.of(p.rec.uid)
	list := &corev1.EventList{}
	if err := p.kube.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{"involvedObject.uid": p.rec.uid}); err != nil {
		return err
	}
	p.rec.events = list.Items
	if len(list.Items) > 0 {
		p.rec.object = list.Items[0].InvolvedObject.Name
	}
	var err error
	if p.rec.journals, err = readJournals(p.dir); err != nil {
		return err
	}
	p.rec.reports, err = readReports(p.dir)
	return err
}

func readJournals(dir string) (map[string][]entry, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		return nil, err
	}
	journals := map[string][]entry{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(filepath.Base(file), ".log")
		for line := range strings.Lines(string(data)) {
			stamp, text, _ := strings.Cut(strings.TrimSpace(line), " ")
			at, err := time.Parse(time.RFC3339Nano, stamp)
			if err != nil {
				return nil, fmt.Errorf("%s: line %q: %w", file, line, err)
			}
			journals[name] = append(journals[name], entry{at, text})
		}
		slices.SortStableFunc(journals[name], func(a, b entry) int { return a.at.Compare(b.at) })
	}
	return journals, nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
