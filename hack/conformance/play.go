// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package conformance runs the kubelet's own runtime manager beside the core of
// this project's shim, through the same random scenarios, and compares all that
// both do. See docs/conformance.md.
package conformance

import (
	"context"
	"strings"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/hack/fakecri"
	"github.com/managedworkload/managedworkload/hack/scenario"
)

// agent is one side of a comparison.
type agent interface {
	SetProbes(byID map[string]fakecri.Verdicts)
	Sync(ctx context.Context, pod *corev1.Pod)
	Terminate(ctx context.Context, pod *corev1.Pod)
	CollectGarbage(ctx context.Context, pod *corev1.Pod, gone bool)
	Restart(ctx context.Context) error
}

// follower is an agent that learns in which order the other side killed.
type follower interface {
	SetKillOrder(names []string)
}

// step is what came of one step of a scenario.
type step struct {
	Trace []fakecri.Entry
	State []string
}

// settleTime is how long a scenario is watched after its last step: a hook that
// the kubelet left running has ended by then.
const settleTime = time.Hour

// play takes an agent through a scenario; it must run in a bubble. leader is what
// the other side did, if that has been through it before.
func play(ctx context.Context, s *scenario.Scenario, r *fakecri.Runtime, a agent, leader []step) ([]step, error) {
	p := &player{pod: s.Pod.DeepCopy(), runtime: r, agent: a}
	var steps []step
	for i := range s.Steps {
		time.Sleep(time.Duration(s.Steps[i].Wait * float64(time.Second)))
		// A hook that runs on and ends at this moment has ended before the step.
		synctest.Wait()
		if f, ok := a.(follower); ok {
			f.SetKillOrder(killOrder(leader[i]))
		}
		if err := p.take(ctx, &s.Steps[i]); err != nil {
			return nil, err
		}
		synctest.Wait()
		steps = append(steps, p.result())
	}
	time.Sleep(settleTime)
	return append(steps, p.result()), nil
}

type player struct {
	pod     *corev1.Pod
	runtime *fakecri.Runtime
	agent   agent
}

func (p *player) take(ctx context.Context, s *scenario.Step) error {
	for i := range s.Events {
		p.happen(&s.Events[i])
	}
	defer p.runtime.Calm()
	pod := p.pod.DeepCopy()
	deleted := pod.DeletionTimestamp != nil
	switch {
	case s.Do == scenario.GC:
		p.agent.CollectGarbage(ctx, pod, deleted && len(p.runtime.Running()) == 0)
		return nil
	case s.Do == scenario.Restart:
		// No probe has a verdict after a restart.
		if err := p.agent.Restart(ctx); err != nil {
			return err
		}
		p.agent.SetProbes(nil)
	default:
		p.agent.SetProbes(p.runtime.Probes())
	}
	if deleted {
		p.agent.Terminate(ctx, pod)
	} else {
		p.agent.Sync(ctx, pod)
	}
	return nil
}

// happen applies an event to the pod, or else to the runtime.
func (p *player) happen(e *scenario.Event) {
	switch e.Kind {
	case scenario.Delete:
		if p.pod.DeletionTimestamp == nil {
			now := metav1.Now()
			p.pod.DeletionTimestamp = &now
		}
		p.pod.DeletionGracePeriodSeconds = e.Grace
	case scenario.Update:
		pod := e.Pod.DeepCopy()
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = p.pod.DeletionTimestamp, p.pod.DeletionGracePeriodSeconds
		p.pod = pod
	default:
		p.runtime.Happen(e)
	}
}

func (p *player) result() step {
	return step{Trace: p.runtime.Take(), State: p.runtime.State()}
}

// killOrder are the containers that were killed in a step, in their order.
func killOrder(s step) []string {
	var names []string
	for _, e := range s.Trace {
		if e.Op == "Event" && strings.HasPrefix(e.Detail, "Normal Killing ") {
			names = append(names, e.Container)
		}
	}
	return names
}
