// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// details adds what does not decide when something happens: what containers and
// sandboxes are made of, what hooks send, and what containers leave behind. Like
// sizes it has numbers of its own.
func (g *generator) details() *generator {
	if g.detailed == nil {
		g.detailed = rand.New(rand.NewPCG(g.s.Seed, 38))
	}
	return &generator{Rand: g.detailed, s: g.s, pod: g.pod, resources: g.resources, detailed: g.detailed}
}

// furnish gives a template such details.
func (g *generator) furnish(t *corev1.PodSpec) {
	if g.chance(30) {
		t.SecurityContext = g.podSecurity()
	}
	t.HostPID, t.HostIPC = g.chance(5), g.chance(5)
	if !t.HostPID && g.chance(10) {
		t.ShareProcessNamespace = ptr.To(true)
	}
	several := g.chance(8)
	for i := range t.InitContainers {
		c := &t.InitContainers[i]
		if several && isSidecar(c) {
			c.RestartPolicyRules = []corev1.ContainerRestartRule{restartAllOn42}
		}
		g.furnishContainer(c)
	}
	for i := range t.Containers {
		c := &t.Containers[i]
		if several && c.RestartPolicy == nil {
			c.RestartPolicy, c.RestartPolicyRules = ptr.To(corev1.ContainerRestartPolicyNever), []corev1.ContainerRestartRule{restartAllOn42}
		}
		g.furnishContainer(c)
	}
	if g.chance(4) {
		// Longer than any deadline of a call.
		t.TerminationGracePeriodSeconds = ptr.To[int64](300)
	}
}

var restartAllOn42 = corev1.ContainerRestartRule{
	Action: corev1.ContainerRestartRuleActionRestartAllContainers,
	ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
		Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42},
	},
}

func (g *generator) podSecurity() *corev1.PodSecurityContext {
	s := &corev1.PodSecurityContext{}
	if g.chance(50) {
		s.RunAsUser, s.RunAsGroup = ptr.To[int64](1000), ptr.To[int64](2000)
	}
	if g.chance(50) {
		s.FSGroup, s.SupplementalGroups = ptr.To[int64](3000), []int64{4000, 5000}
	}
	if g.chance(30) {
		s.SupplementalGroupsPolicy = ptr.To(pick(g, corev1.SupplementalGroupsPolicyMerge, corev1.SupplementalGroupsPolicyStrict))
	}
	if g.chance(30) {
		s.SeccompProfile = &corev1.SeccompProfile{Type: pick(g, corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined)}
	}
	if g.chance(20) {
		s.SELinuxOptions = &corev1.SELinuxOptions{Level: "s0:c1"}
	}
	if g.chance(20) {
		s.Sysctls = []corev1.Sysctl{{Name: "net.ipv4.ip_unprivileged_port_start", Value: "0"}}
	}
	return s
}

func (g *generator) furnishContainer(c *corev1.Container) {
	if g.chance(40) {
		c.Env = []corev1.EnvVar{{Name: "WHO", Value: "me"}, {Name: "EMPTY"}}
		c.Command, c.Args = []string{"/bin/run", "$(WHO)", "$(UNSET)"}, []string{"--as=$(WHO)", "$$(WHO)", "$(EMPTY)"}
	}
	if g.chance(20) {
		c.WorkingDir = "/srv"
	}
	if g.chance(10) {
		c.Stdin, c.StdinOnce, c.TTY = true, g.chance(50), g.chance(50)
	}
	if g.chance(30) {
		c.SecurityContext = g.containerSecurity()
	}
	if g.chance(40) {
		c.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	}
	if g.chance(10) {
		c.TerminationMessagePath = pick(g, "/tmp/why", "why")
	}
	if g.chance(10) {
		c.Ports = append(c.Ports, corev1.ContainerPort{ContainerPort: 9090, HostPort: 9090, Protocol: pick(g, corev1.ProtocolUDP, corev1.ProtocolTCP)})
	}
	if c.Lifecycle != nil {
		g.headers(c.Lifecycle.PreStop)
		g.headers(c.Lifecycle.PostStart)
	}
}

func (g *generator) containerSecurity() *corev1.SecurityContext {
	s := &corev1.SecurityContext{}
	switch g.IntN(6) {
	case 0:
		s.Privileged = ptr.To(true)
	case 1:
		s.SELinuxOptions = &corev1.SELinuxOptions{Type: "t", Level: "s0"}
	case 2:
		s.RunAsNonRoot, s.RunAsUser = ptr.To(true), ptr.To(pick[int64](g, 0, 7, 7, 7))
		if g.chance(40) {
			s.RunAsUser = nil // what counts is the image's user: root, a number or a name
		}
	case 3:
		s.RunAsUser, s.RunAsGroup = ptr.To[int64](8), ptr.To[int64](9)
	case 4:
		s.Capabilities = &corev1.Capabilities{Add: []corev1.Capability{"NET_ADMIN"}, Drop: []corev1.Capability{"ALL"}}
		s.AllowPrivilegeEscalation = ptr.To(false)
	case 5:
		s.ReadOnlyRootFilesystem = ptr.To(true)
		s.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	}
	return s
}

// headers gives the request of a hook headers that have a meaning.
func (g *generator) headers(h *corev1.LifecycleHandler) {
	if h == nil || h.HTTPGet == nil {
		return
	}
	for _, header := range []corev1.HTTPHeader{
		{Name: "Authorization", Value: "secret"}, {Name: "host", Value: "virtual.example.com"}, {Name: "X-Twice", Value: "1"},
		{Name: "x-twice", Value: "2"}, {Name: "Accept", Value: ""}, {Name: "User-Agent", Value: "mine"},
	} {
		if g.chance(40) {
			h.HTTPGet.HTTPHeaders = append(h.HTTPGet.HTTPHeaders, header)
		}
	}
}

// leave says what a container leaves behind, and that more servers speak plain HTTP.
func (g *generator) leave(s *Script) {
	if g.chance(25) {
		s.PreStop = Hook{Seconds: 0.3, HTTPOnHTTPS: true}
	}
	s.RotatesLogs = g.chance(20)
	for i := range s.Runs {
		s.Runs[i].MessageBytes = pick(g, 0, 0, 20, 300, 5000)
		s.Runs[i].LogLines = pick(g, 0, 1, 7, 200)
	}
	if g.pod.Spec.TerminationGracePeriodSeconds != nil && *g.pod.Spec.TerminationGracePeriodSeconds > 200 && g.chance(50) {
		s.StopSeconds = pick(g, 150.3, 290.7)
	}
}

// hanging are the methods that may never be answered, those before StopPodSandbox
// for any container. A pull has no deadline.
var hanging = []string{
	"StopContainer", "StopContainer", "CreateContainer", "StartContainer", "RemoveContainer",
	"StopPodSandbox", "RemovePodSandbox", "RunPodSandbox",
}

// worsen makes some failures of another kind.
func (g *generator) worsen(e *Event) {
	switch {
	case e.Method == "RunPodSandbox" && g.chance(30):
		e.Error = "Hang"
	case e.Method == "PullImage" && g.chance(40):
		e.Error = pick(g, "RegistryUnavailable", "SignatureValidationFailed")
	case e.Kind == Fail && g.chance(8):
		i := g.IntN(len(hanging))
		if e.Container != "" {
			i = g.IntN(5)
		} else if i < 5 {
			return
		}
		e.Method, e.Error = hanging[i], "Hang"
	}
}

// more are events that seldom happen by themselves.
func (g *generator) more() []Event {
	return slices.Concat(g.probesOfAll(), g.endsOfEphemeral(), g.failingCalls(), g.restartsOfAll(), g.changes())
}

// probesOfAll are verdicts about containers that seldom get one.
func (g *generator) probesOfAll() (events []Event) {
	for _, c := range g.allContainers() {
		if c.StartupProbe != nil && isSidecar(c) && g.chance(10) {
			// Its probe comes before its definition.
			c.Image = "example.com/" + c.Name + ":v5"
			events = append(events, Event{Kind: Update, Pod: g.pod.DeepCopy()}, Event{Kind: Startup, Container: c.Name, Verdict: "failure"})
		} else if c.StartupProbe != nil && g.chance(5) {
			events = append(events, Event{Kind: Startup, Container: c.Name, Verdict: pick(g, "failure", "failure", "unknown")})
		}
		if g.chance(2) {
			events = append(events, Event{Kind: Liveness, Container: c.Name, Verdict: pick(g, "success", "unknown")})
		}
	}
	return events
}

func (g *generator) endsOfEphemeral() (events []Event) {
	for i := range g.pod.Spec.EphemeralContainers {
		name := g.pod.Spec.EphemeralContainers[i].Name
		if g.chance(40) {
			events = append(events, pick(g,
				Event{Kind: Exit, Container: name, ExitCode: pick[int32](g, 0, 1), Ago: 0.3}, Event{Kind: Removed, Container: name},
				Event{Kind: Unknown, Container: name}, Event{Kind: UnknownDead, Container: name},
				Event{Kind: Fail, Method: pick(g, "CreateContainer", "StartContainer", "StopContainer"), Container: name, Error: "Unknown"}))
		}
	}
	return events
}

// failingCalls are what fails, and what makes it be called.
func (g *generator) failingCalls() (events []Event) {
	if g.chance(6) {
		name := pick(g, g.allContainers()...).Name
		events = append(events, pick(g,
			[]Event{{Kind: Fail, Method: "StopContainer", Container: name, Error: "NotFound"}, {Kind: Liveness, Container: name, Verdict: "failure"}},
			[]Event{{Kind: Fail, Method: "CreateContainer", Container: name, Error: "Hang"}, {Kind: Removed, Container: name}},
			[]Event{{Kind: Fail, Method: "RunPodSandbox", Error: "Hang"}, {Kind: SandboxDied}})...)
	}
	return events
}

// restartsOfAll are exits by which several containers ask for a restart of all at one
// time.
func (g *generator) restartsOfAll() (events []Event) {
	if several := g.pod.Spec.Containers[0].RestartPolicyRules; len(several) == 1 && g.chance(20) {
		for _, c := range g.allContainers() {
			events = append(events, Event{Kind: Exit, Container: c.Name, ExitCode: 42, Ago: 0.2})
		}
	}
	return events
}

// changes are other changes of the sandbox and of the template.
func (g *generator) changes() (events []Event) {
	if g.chance(2) {
		events = append(events, Event{Kind: pick(g, SandboxNoStatus, SandboxMode)})
	}
	if g.chance(2) {
		// What may change beside the image.
		c := pick(g, g.allContainers()...)
		if c.Lifecycle == nil {
			c.Lifecycle = &corev1.Lifecycle{}
		}
		c.Lifecycle.PostStart = g.handler("poststart", c.Name)
		events = append(events, Event{Kind: Update, Pod: g.pod.DeepCopy()})
	}
	return events
}
