// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/hack/localstack"
)

// generator makes scenarios from a seed: what happens is drawn first, then a
// template that it can happen to.
type generator struct{ *rand.Rand }

// generate makes n scenarios that depend on the seed alone. The kinds take
// turns, so that each of them is there.
func generate(seed uint64, n int) []scenario {
	kinds := []func(generator) scenario{
		generator.deletion, generator.liveness, generator.exit, generator.order,
		generator.startup, generator.finish, generator.postStart, generator.lost, generator.image, generator.resized, generator.objects,
	}
	var scenarios []scenario
	for i := range n {
		// A source of its own: a change of one leaves the others as they are.
		g := generator{rand.New(rand.NewPCG(seed, uint64(i)))}
		s := kinds[i%len(kinds)](g)
		s.name = fmt.Sprintf("g%02d-%s", i, s.name)
		scenarios = append(scenarios, s)
	}
	return scenarios
}

func (g generator) chance(percent int) bool { return g.IntN(100) < percent }

func (g generator) between(least, most int) int { return least + g.IntN(most-least+1) }

func one[T any](g generator, of ...T) T { return of[g.IntN(len(of))] }

// grace is at most what a test run has time for.
func (g generator) grace() int64 { return int64(g.between(2, 7)) }

// hookTime draws how long a hook takes: clear of the next whole second, also on a
// busy machine. The agents take whole seconds off the grace period.
func (g generator) hookTime(most int) time.Duration {
	return time.Duration(g.between(0, most))*time.Second + 250*time.Millisecond
}

// delay draws how long a program takes: clear of the timeouts, which are whole
// seconds.
func (g generator) delay(most int) time.Duration {
	return time.Duration(g.between(0, most))*time.Second + 500*time.Millisecond
}

// main is a main container with some answer to SIGTERM and some hook.
func (g generator) main(name string, flags ...string) corev1.Container {
	c := serve(name, append(flags, g.onTerm())...)
	c.Image = one(g, localstack.ImageV1, localstack.ImageV2)
	if g.chance(60) {
		c = preStop(c, g.hook(name))
	}
	if g.chance(25) {
		c.ReadinessProbe = execProbe("check-file", localstack.ProgramPath)
	}
	return c
}

func (g generator) onTerm() string {
	return one(g, "--on-term=exit", "--term-exit-code=3", "--on-term=ignore", "--on-term=delay:"+g.delay(2).String())
}

// hook is a preStop hook. The API server refuses one that sleeps longer than the
// grace period, which is 2 s at least.
func (g generator) hook(name string) *corev1.LifecycleHandler {
	switch g.IntN(4) {
	case 0:
		return sleeping(int64(g.between(1, 2)))
	case 1:
		return calling("/preStop", 8089) // nothing listens there
	case 2:
		return marked(name, "preStop", g.hookTime(1), "exit", "4")
	default:
		return marked(name, "preStop", g.hookTime(3))
	}
}

// healthy is a main container that serves all kinds of probes.
func (g generator) healthy(name string) corev1.Container {
	c := servesAll(name, g.onTerm())
	c.Image = one(g, localstack.ImageV1, localstack.ImageV2)
	if g.chance(50) {
		c = preStop(c, g.hook(name))
	}
	return c
}

func (g generator) probe(service, path string) *corev1.Probe {
	p := one(g, httpProbe(path), tcpProbe(), grpcProbe(service), execProbe("check-no-file", failFile("c1")))
	p.FailureThreshold = int32(g.between(1, 2))
	return p
}

// others are init containers, sidecars and a second main container.
func (g generator) others() []corev1.Container {
	var list []corev1.Container
	for i := range g.IntN(3) {
		name := fmt.Sprintf("i%d", i+1)
		if g.chance(50) {
			list = append(list, initially(command(name, "append", journalOf(name), "ran", ",", "sleep", g.delay(0).String())))
			continue
		}
		name = fmt.Sprintf("s%d", i+1)
		c := serve(name, g.onTerm())
		if g.chance(40) {
			c = preStop(c, marked(name, "preStop", g.hookTime(1)))
		}
		list = append(list, sidecar(c))
	}
	if g.chance(50) {
		list = append(list, g.main("c2"))
	}
	return list
}

func (g generator) pod(policy corev1.RestartPolicy, containers ...corev1.Container) corev1.PodSpec {
	others := g.others()
	// The kubelet drops what goes beyond 25 events of one Pod.
	others = others[:min(len(others), 4-len(containers))]
	return with(pod(g.grace(), append(others, containers...)...), policy)
}

func (g generator) policy() corev1.RestartPolicy { return one(g, always, onFailure, never) }

// finished adds what a scenario has however it came about.
func (g generator) finished(s scenario) scenario {
	if g.chance(30) {
		s.grace = ptr.To(int64(g.between(1, int(*s.spec.TerminationGracePeriodSeconds))))
	}
	return s
}

func (g generator) deletion() scenario {
	return g.finished(scenario{name: "deletion", trigger: "Termination", spec: g.pod(g.policy(), g.main("c1")), steps: untilReady})
}

// order has sidecars for certain.
func (g generator) order() scenario {
	spec := g.pod(g.policy(), g.main("c1"), sidecar(serve("s8", "--on-term=delay:"+g.delay(1).String())), sidecar(g.main("s9")))
	return g.finished(scenario{name: "order", trigger: "Termination", spec: spec, steps: untilReady})
}

func (g generator) liveness() scenario {
	c := g.healthy("c1")
	c.LivenessProbe = g.probe("liveness", "/healthz")
	if g.chance(40) {
		c.LivenessProbe.TerminationGracePeriodSeconds = ptr.To(int64(g.between(1, 8)))
	}
	return g.finished(scenario{name: "liveness", trigger: "LivenessProbe", spec: g.pod(always, c), steps: []step{
		{name: "ready", until: ready, do: touch("fail-c1")}, {name: "restarted", until: restartedAndReady("c1", 1)},
	}})
}

func (g generator) startup() scenario {
	c := g.healthy("c1")
	c.StartupProbe = execProbe("check-file", journals+"/go")
	c.StartupProbe.FailureThreshold = int32(g.between(2, 4))
	if g.chance(40) {
		c.StartupProbe.TerminationGracePeriodSeconds = ptr.To(int64(g.between(1, 4)))
	}
	return g.finished(scenario{name: "startup", trigger: "StartupProbe", spec: g.pod(always, c), steps: []step{
		{name: "restarted", until: restarted("c1", 1), quick: true, do: touch("go")}, {name: "ready", until: restartedAndReady("c1", 1)},
	}})
}

func (g generator) exit() scenario {
	policy, code := g.policy(), g.between(0, 3)
	steps := []step{{name: "ready", until: ready, do: get(fmt.Sprintf("/exit?code=%d", code))}}
	if policy == always || (policy == onFailure && code != 0) {
		steps = append(steps, step{name: "restarted", until: restartedAndReady("c1", 1)})
	} else {
		steps = append(steps, step{name: "exited", until: terminated("c1")})
	}
	spec := g.pod(policy, g.healthy("c1"))
	if last := &steps[len(steps)-1]; last.name == "exited" && len(spec.Containers) == 1 {
		last.until = ended // the sidecars take their time
	}
	return g.finished(scenario{name: "exit", trigger: "Restart", spec: spec, steps: steps})
}

// finish ends by itself, and the sidecars are ended.
func (g generator) finish() scenario {
	code := fmt.Sprintf("--exit-code=%d", g.IntN(2)*5)
	spec := with(pod(g.grace(), initially(command("i", "append", journalOf("i"), "ran")), sidecar(g.main("s1")), sidecar(g.main("s2")),
		serve("c1", "--exit-after=2s", code), serve("c2", "--exit-after="+g.delay(3).String())), never)
	return g.finished(scenario{name: "finish", trigger: "WorkloadFinished", spec: spec, steps: []step{{name: "ended", until: ended}}})
}

func (g generator) postStart() scenario {
	c := postStart(g.main("c1"), execute("append", journalOf("c1"), "postStart", ",", "sleep", "500ms", ",", "check-file", journals+"/go"))
	return g.finished(scenario{name: "poststart", trigger: "PostStartHookFailed", spec: g.pod(always, c), steps: []step{
		{name: "failed twice", until: backedOff("c1", 1), quick: true, do: touch("go")}, {name: "ready", until: ready},
	}})
}

func (g generator) lost() scenario {
	return g.finished(scenario{name: "sandbox", trigger: "SandboxChanged", spec: with(pod(g.grace(), sidecar(g.main("s9")), g.main("c1")), always), steps: []step{
		{name: "ready", until: ready, do: killSandbox}, {name: "restarted", until: restartedAndReady("c1", 1)},
	}})
}

func (g generator) image() scenario {
	c := g.main("c1")
	c.Image = localstack.ImageV1
	return g.finished(scenario{name: "image", trigger: "DefinitionChanged", spec: g.pod(g.policy(), c), steps: []step{
		{name: "ready", until: ready, do: change(func(s *corev1.PodSpec) {
			for i := range s.Containers {
				if s.Containers[i].Name == "c1" {
					s.Containers[i].Image = localstack.ImageV2
				}
			}
		})},
		{name: "restarted", until: restartedAndReady("c1", 1)},
	}})
}

// resized gets other CPU and memory, and may have to be restarted for either.
func (g generator) resized() scenario {
	from, to := resources(50, 48), resources(int64(g.between(3, 9)*10), int64(g.between(6, 12)*8))
	c, policy, restarts := withResources(g.main("c1"), from), g.policy(), false
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		// The API server refuses a restart for a Pod that is never restarted.
		if policy != never && g.chance(60) {
			c = withResources(c, from, name)
			before, after := from.Requests[name], to.Requests[name]
			restarts = restarts || before.Cmp(after) != 0
		}
	}
	done := func(s *corev1.PodStatus) bool {
		return resized("c1", to)(s) && (!restarts || restartedAndReady("c1", 1)(s))
	}
	trigger := "Resize"
	if restarts {
		trigger = "ResizeRequired"
	}
	return g.finished(scenario{name: "resize", trigger: trigger, spec: g.pod(policy, c), steps: []step{
		{name: "ready", until: ready, do: resize("c1", to)}, {name: "resized", until: done},
	}})
}
