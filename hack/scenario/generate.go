// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/api/template"
)

// generator makes a scenario of random numbers. Times of what a container does by
// itself have a fraction of a second and the agent's have none, so that no two
// things race on a virtual clock.
type generator struct {
	*rand.Rand
	s   *Scenario
	pod *corev1.Pod
	// resources are the numbers of sizes, and detailed those of details.
	resources, detailed *rand.Rand
}

// Generate returns the scenario of a seed, always the same.
func Generate(seed uint64) *Scenario {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 36)), s: &Scenario{Seed: seed, Scripts: map[string]*Script{}}}
	g.s.PullSeconds = pick(g, 0, 0, 0.6, 3.4)
	g.s.AdditionalIPs = pick(g.details(), nil, nil, nil, nil, []string{"fd00::7"}, []string{"nonsense"})
	g.pod = g.newPod()
	g.s.Pod = g.pod.DeepCopy()
	g.scripts()
	g.steps()
	return g.s
}

func pick[T any](g *generator, from ...T) T { return from[g.IntN(len(from))] }

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

var mainNames, initNames = []string{"app", "web", "db"}, []string{"setup", "proxy", "agent"}

func (g *generator) newPod() *corev1.Pod {
	t := &corev1.PodTemplateSpec{}
	t.Spec.RestartPolicy = pick(g, corev1.RestartPolicyAlways, corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)
	t.Spec.TerminationGracePeriodSeconds = ptr.To(pick[int64](g, 0, 1, 2, 4, 8, 30, 30))
	t.Spec.HostNetwork = g.chance(10)
	for _, name := range mainNames[:1+g.IntN(3)] {
		t.Spec.Containers = append(t.Spec.Containers, g.container(name))
	}
	if g.chance(55) {
		for _, name := range initNames[:1+g.IntN(3)] {
			c := g.container(name)
			if g.chance(55) {
				c.RestartPolicy, c.RestartPolicyRules = ptr.To(corev1.ContainerRestartPolicyAlways), nil
			} else {
				c.LivenessProbe, c.StartupProbe = nil, nil
			}
			t.Spec.InitContainers = append(t.Spec.InitContainers, c)
		}
	}
	g.details().furnish(&t.Spec)
	g.givePod(&t.Spec)
	g.prioritize(&t.Spec)
	template.SetDefaults(t)
	if g.chance(3) {
		t.Spec.TerminationGracePeriodSeconds = nil
	}
	if g.chance(5) {
		e := corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "example.com/debug:v1", ImagePullPolicy: corev1.PullIfNotPresent}}
		e.TargetContainerName = pick(g, "", "app", "db")
		if slices.ContainsFunc(t.Spec.Containers, func(c corev1.Container) bool { return c.Name == e.TargetContainerName }) {
			// The target's namespace is not for a template, which has no such containers.
			e.TargetContainerName = ""
		}
		t.Spec.EphemeralContainers = append(t.Spec.EphemeralContainers, e)
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "ns", UID: types.UID(fmt.Sprintf("uid-%d", g.s.Seed)), Labels: map[string]string{"app": "x"}},
		Spec:       t.Spec,
	}
}

func (g *generator) container(name string) corev1.Container {
	c := corev1.Container{Name: name, Image: pick(g, "example.com/"+name+":v1", "example.com/"+name+":v1", "busybox")}
	if g.chance(2) {
		c.Image = "Not An Image"
	}
	if g.chance(15) {
		c.ImagePullPolicy = pick(g, corev1.PullAlways, corev1.PullNever)
	}
	if g.chance(20) {
		g.policy(&c)
	}
	c.Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}
	if g.chance(40) {
		c.Lifecycle = &corev1.Lifecycle{PreStop: g.handler("prestop", name)}
	}
	if g.chance(15) {
		if c.Lifecycle == nil {
			c.Lifecycle = &corev1.Lifecycle{}
		}
		c.Lifecycle.PostStart = g.handler("poststart", name)
	}
	if g.chance(40) {
		c.LivenessProbe = g.probe()
	}
	if g.chance(25) {
		c.StartupProbe = g.probe()
	}
	g.sizes().give(&c)
	return c
}

// policy gives a container a restart policy of its own, and rules.
func (g *generator) policy(c *corev1.Container) {
	c.RestartPolicy = ptr.To(pick(g, corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure, corev1.ContainerRestartPolicyAlways))
	if g.chance(30) {
		return
	}
	for range 1 + g.IntN(2) {
		c.RestartPolicyRules = append(c.RestartPolicyRules, corev1.ContainerRestartRule{
			Action: pick(g, corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleActionRestartAllContainers),
			ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
				Operator: pick(g, corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn),
				Values:   []int32{pick[int32](g, 0, 1, 42, 137)},
			},
		})
	}
}

func (g *generator) probe() *corev1.Probe {
	p := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}}
	if g.chance(50) {
		p.TerminationGracePeriodSeconds = ptr.To(pick[int64](g, 1, 3, 7, 45))
	}
	return p
}

func (g *generator) handler(verb, name string) *corev1.LifecycleHandler {
	switch g.IntN(10) {
	case 0, 1:
		action := &corev1.HTTPGetAction{Path: "/" + verb + "/" + name, Port: pick(g, intstr.FromInt32(8080), intstr.FromString("http"), intstr.FromString("nowhere"))}
		action.Scheme = pick(g, corev1.URISchemeHTTP, corev1.URISchemeHTTPS)
		action.Host = pick(g, "", "", "example.com")
		return &corev1.LifecycleHandler{HTTPGet: action}
	case 2, 3:
		return &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: pick[int64](g, 0, 1, 3, 13)}}
	default:
		return &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{verb, name}}}
	}
}

// scripts says how the containers behave, and which images are there.
func (g *generator) scripts() {
	add := func(c *corev1.Container, init bool) {
		s := &Script{
			StopSeconds:  pick(g, 0, 0, 0.4, 1.6, 2.7, 4.3, 100.1),
			StopExitCode: pick[int32](g, 0, 0, 1, 143),
			PreStop:      g.hook(), PostStart: g.hook(),
		}
		for range 1 + g.IntN(3) {
			s.Runs = append(s.Runs, g.run(init && !isSidecar(c)))
		}
		g.details().leave(s)
		g.s.Scripts[c.Name] = s
		if g.chance(80) {
			g.s.Images = append(g.s.Images, withTag(c.Image))
		}
	}
	for i := range g.pod.Spec.InitContainers {
		add(&g.pod.Spec.InitContainers[i], true)
	}
	for i := range g.pod.Spec.Containers {
		add(&g.pod.Spec.Containers[i], false)
	}
	slices.Sort(g.s.Images)
}

func isSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

func withTag(image string) string {
	if image == "busybox" {
		return "busybox:latest"
	}
	return image
}

func (g *generator) hook() Hook {
	h := Hook{Seconds: pick(g, 0, 0.3, 1.7, 3.3, 8.6, 45.2)}
	switch g.IntN(10) {
	case 0:
		h.Error = pick(g, "Unknown", "DeadlineExceeded", "Unavailable")
	case 1:
		h.ExitCode = 3
	case 2:
		h.HTTPOnHTTPS = true
	}
	return h
}

func (g *generator) run(ends bool) Run {
	r := Run{ExitCode: pick[int32](g, 0, 0, 1, 42, 137)}
	if ends {
		r.Seconds = ptr.To(pick(g, 0.2, 0.9, 4.7))
		if g.chance(60) {
			r.ExitCode = 0
		}
	} else if g.chance(40) {
		r.Seconds = ptr.To(pick(g, 0.2, 1.9, 6.7, 30.8, 400.6))
	}
	r.OOM = g.chance(5)
	return r
}
