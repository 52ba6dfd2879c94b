// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/recordings"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// orderVector is a line of order-trace. Only the stops are a matter of the plan:
// results and trace are the executor's.
type orderVector = recordings.Kill[struct {
	Results json.RawMessage `json:"results"`
	Trace   json.RawMessage `json:"trace"`
	Stops   []stopVector    `json:"stops"`
}]

type stopVector struct {
	Container string  `json:"container"`
	ID        string  `json:"id"`
	T         float64 `json:"t"`
	Timeout   int64   `json:"timeout"`
}

func TestConformanceOrderTrace(t *testing.T) {
	t.Parallel()
	recordings.Each(t, "order-trace", func(t *testing.T, _ []byte, v *orderVector) {
		byTime := func(a, b stopVector) int {
			return cmp.Or(cmp.Compare(a.T, b.T), cmp.Compare(a.ID, b.ID))
		}
		want := slices.SortedFunc(slices.Values(v.Output.Stops), byTime)
		got := slices.SortedFunc(slices.Values(simulateStops(t, v)), byTime)
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("%s: stops differ (-kubelet +ours):\n%s", v.ID, diff)
		}
	})
}

// termination is a pod kill worked out from the plan's rules, with no clock.
type termination struct {
	vector *orderVector
	order  map[string][]string
	stops  map[string]stopVector
	// ended is when a container's stop succeeded, +Inf if it did not.
	ended map[string]float64
}

func simulateStops(t *testing.T, v *orderVector) []stopVector {
	t.Helper()
	var running []string
	for _, c := range v.Runtime.Containers {
		running = append(running, c.Name)
	}
	s := termination{
		vector: v,
		order:  plan.TerminationOrder(v.Pod, running),
		stops:  map[string]stopVector{},
		ended:  map[string]float64{},
	}
	var stops []stopVector
	for _, name := range running {
		s.stop(t, name)
		stops = append(stops, s.stops[name])
	}
	return stops
}

// stop works out when a container is stopped, those it waits for first.
func (s *termination) stop(t *testing.T, name string) {
	t.Helper()
	if _, done := s.stops[name]; done {
		return
	}
	c := containerNamed(t, s.vector.Pod, name)
	grace := plan.ContainerGrace(s.vector.Pod, c, v1alpha1.TriggerTermination).Seconds
	if s.vector.GracePeriodOverride != nil {
		grace = *s.vector.GracePeriodOverride
	}
	now := 0.0
	if grace > 0 {
		hook := min(s.hookSeconds(c), float64(grace))
		now += hook
		grace -= int64(hook)
	}
	if grace > 0 {
		waited := toMicrosecond(min(max(s.turn(t, name)-now, 0), float64(grace)))
		now += waited
		grace -= int64(waited)
	}
	s.carryOut(name, toMicrosecond(now), plan.StopTimeout(grace))
}

// toMicrosecond rounds seconds: 1.4 less 0.4 is not quite 1.
func toMicrosecond(seconds float64) float64 { return math.Round(seconds*1e6) / 1e6 }

// turn returns when all those have ended that a container waits for.
func (s *termination) turn(t *testing.T, name string) float64 {
	t.Helper()
	turn := 0.0
	for _, other := range s.order[name] {
		s.stop(t, other)
		turn = max(turn, s.ended[other])
	}
	return turn
}

func (s *termination) carryOut(name string, now float64, timeout int64) {
	for _, c := range s.vector.Runtime.Containers {
		if c.Name != name {
			continue
		}
		s.stops[name] = stopVector{Container: name, ID: c.ID, T: now, Timeout: timeout}
		switch c.StopError {
		case "":
			s.ended[name] = now + min(c.StopSeconds, float64(timeout))
		case "NotFound":
			s.ended[name] = now
		default:
			s.ended[name] = math.Inf(1)
		}
	}
}

// hookSeconds returns how long a container's preStop hook takes.
func (s *termination) hookSeconds(c *corev1.Container) float64 {
	if c.Lifecycle == nil || c.Lifecycle.PreStop == nil {
		return 0
	}
	hook := s.vector.Hooks["prestop/"+c.Name]
	switch handler := c.Lifecycle.PreStop; {
	case handler.Sleep != nil:
		return float64(handler.Sleep.Seconds)
	case handler.Exec != nil:
		return hook.Seconds
	case handler.HTTPGet != nil:
		if handler.HTTPGet.Scheme == corev1.URISchemeHTTPS && hook.Error == "http-on-https" {
			// It is tried again over HTTP.
			return 2 * hook.Seconds
		}
		return hook.Seconds
	}
	return 0
}

func containerNamed(t *testing.T, pod *corev1.Pod, name string) *corev1.Container {
	t.Helper()
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	t.Fatalf("Pod %s has no container %q", pod.Name, name)
	return nil
}
