// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/hack/localstack"
)

// written are the scenarios that are written by hand: each trigger that a Pod
// can have, and what is easy to get wrong.
func written() []scenario {
	return slices.Concat(terminations(), sidecars(), probes(), hooks(), exits(), starts(), disturbances(), resizes(), withObjects())
}

var untilReady = []step{{name: "ready", until: ready}}

const (
	always    = corev1.RestartPolicyAlways
	onFailure = corev1.RestartPolicyOnFailure
	never     = corev1.RestartPolicyNever
)

// terminations are deletions of running workloads.
func terminations() []scenario {
	deletion := func(name string, spec corev1.PodSpec) scenario {
		return scenario{name: name, trigger: "Termination", spec: spec, steps: untilReady}
	}
	overridden := deletion("grace-of-deletion", pod(20, preStop(serve("c", "--on-term=ignore"), marked("c", "preStop", time.Second))))
	overridden.grace = ptr.To[int64](3)
	smallest := deletion("grace-1-skips-nothing", pod(20, preStop(serve("c", "--on-term=ignore"), marked("c", "preStop", 3*time.Second))))
	smallest.grace = ptr.To[int64](1)
	overrun := deletion("prestop-overruns", pod(3, preStop(serve("c", "--on-term=ignore"), marked("c", "preStop", 30*time.Second))))
	inFlight := deletion("grace-shortened", pod(20, serve("c", "--on-term=ignore")))
	inFlight.shorten = &shortened{after: 2 * time.Second, grace: 2}
	return []scenario{
		deletion("plain", pod(30, serve("c"))),
		deletion("prestop-exec", pod(8, preStop(serve("c", "--on-term=delay:700ms"), marked("c", "preStop", 1300*time.Millisecond)))),
		deletion("prestop-sleep", pod(8, preStop(serve("c"), sleeping(2)))),
		deletion("prestop-http", pod(8, preStop(serve("c", "--http=:8080"), calling("/preStop?sleep=1s", 8080)))),
		deletion("prestop-fails", pod(5, preStop(serve("c"), marked("c", "preStop", 300*time.Millisecond, "exit", "3")))),
		deletion("prestop-no-program", pod(5, preStop(serve("c"), &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"/none"}}}))),
		deletion("prestop-refused", pod(5, preStop(serve("c"), calling("/preStop", 8089)))),
		deletion("ignores-term", pod(3, serve("c", "--on-term=ignore"))),
		deletion("exits-late-with-code", pod(6, serve("c", "--on-term=delay:2s", "--term-exit-code=7"))),
		deletion("two-mains", pod(5, preStop(serve("c1", "--on-term=delay:1s"), marked("c1", "preStop", time.Second)), serve("c2", "--on-term=ignore"))),
		overrun, overridden, smallest, inFlight,
	}
}

// sidecars end after the mains, in reverse order.
func sidecars() []scenario {
	two := func(main corev1.Container) corev1.PodSpec {
		return pod(10, sidecar(serve("s1", "--on-term=delay:300ms")), sidecar(serve("s2", "--on-term=delay:800ms")), main)
	}
	hooked := pod(12, sidecar(preStop(serve("s1"), marked("s1", "preStop", time.Second))),
		sidecar(preStop(serve("s2", "--on-term=delay:1s"), marked("s2", "preStop", 2*time.Second))), serve("c", "--on-term=delay:3s"))
	probed := sidecar(servesAll("s1"))
	probed.StartupProbe = execProbe("check-file", journals+"/go")
	probed.StartupProbe.FailureThreshold = 60
	probed.StartupProbe.InitialDelaySeconds = 2 // after the file: which is first would be chance, and with it an event
	unhealthy := sidecar(servesAll("s1"))
	unhealthy.LivenessProbe = httpProbe("/healthz")
	return []scenario{
		{name: "sidecars-in-order", trigger: "Termination", spec: two(serve("c", "--on-term=delay:1200ms")), steps: untilReady},
		{name: "sidecars-out-of-time", trigger: "Termination", spec: with(pod(4, sidecar(serve("s1", "--on-term=ignore")), sidecar(serve("s2", "--on-term=ignore")), serve("c", "--on-term=ignore")), always), steps: untilReady},
		{name: "sidecars-with-hooks", trigger: "Termination", spec: hooked, steps: untilReady},
		{name: "sidecar-startup-first", trigger: "Order of starts", spec: pod(5, probed, initially(command("i", "append", journalOf("i"), "ran")), serve("c")), steps: []step{
			{name: "sidecar runs", until: running("s1"), do: touch("go")}, {name: "ready", until: ready},
		}},
		{name: "sidecar-liveness", trigger: "LivenessProbe", spec: pod(4, unhealthy, serve("c")), steps: []step{
			{name: "ready", until: ready, do: touch("fail-s1")}, {name: "restarted", until: restartedAndReady("s1", 1)},
		}},
		{name: "sidecars-after-finish", trigger: "WorkloadFinished", spec: with(pod(8, sidecar(serve("s1", "--on-term=delay:500ms")), sidecar(serve("s2")), serve("c", "--exit-after=2s")), never), steps: []step{
			{name: "ended", until: ended},
		}},
		{name: "sidecar-exits", trigger: "Restart", spec: with(pod(4, sidecar(servesAll("s1")), serve("c")), never), steps: []step{
			{name: "ready", until: ready, do: get("/exit?code=5")}, {name: "restarted", until: restartedAndReady("s1", 1)},
		}},
	}
}

// probes that fail kill.
func probes() []scenario {
	live := func(name string, p *corev1.Probe, policy corev1.RestartPolicy, flags ...string) scenario {
		c := servesAll("c", flags...)
		c.LivenessProbe = p
		steps := []step{{name: "ready", until: ready, do: touch("fail-c")}, {name: "restarted", until: restartedAndReady("c", 1)}}
		if policy == never {
			steps[1] = step{name: "ended", until: ended}
		}
		return scenario{name: name, trigger: "LivenessProbe", spec: with(pod(6, c), policy), steps: steps}
	}
	short := httpProbe("/healthz")
	short.TerminationGracePeriodSeconds = ptr.To[int64](2)
	slow := execProbe("try", "check-no-file", journals+"/fail-c", ",", "check-no-file", journals+"/fail-c", ",", "echo", "ok")
	slow.FailureThreshold = 2
	hanging := servesAll("c", "--on-term=delay:500ms")
	hanging.StartupProbe = execProbe("wait-file", journals+"/go")
	hanging.StartupProbe.TimeoutSeconds = 1
	starting := preStop(servesAll("c"), marked("c", "preStop", time.Second))
	starting.StartupProbe = execProbe("check-file", journals+"/go")
	starting.StartupProbe.FailureThreshold = 3
	startup := []step{{name: "restarted", until: restarted("c", 1), quick: true, do: touch("go")}, {name: "ready", until: restartedAndReady("c", 1)}}
	unready := servesAll("c")
	unready.ReadinessProbe = httpProbe("/readyz")
	hooked := live("liveness-prestop", httpProbe("/healthz"), always, "--on-term=delay:500ms")
	hooked.spec.Containers[0] = preStop(hooked.spec.Containers[0], marked("c", "preStop", 1500*time.Millisecond))
	refused := live("liveness-http-refused", httpProbe("/healthz"), always)
	refused.spec.Containers[0].LivenessProbe.HTTPGet.Port.IntVal = 8099
	refused.spec.Containers[0].LivenessProbe.InitialDelaySeconds = 3
	refused.spec.Containers[0].LivenessProbe.PeriodSeconds = 30
	refused.steps = []step{{name: "restarted", until: restarted("c", 1)}}
	return []scenario{
		live("liveness-http", httpProbe("/healthz"), always),
		live("liveness-exec", slow, always, "--on-term=delay:1s"),
		live("liveness-tcp", tcpProbe(), always),
		live("liveness-grpc", grpcProbe("liveness"), onFailure, "--term-exit-code=4"),
		live("liveness-own-grace", short, always, "--on-term=ignore"),
		live("liveness-forced", httpProbe("/healthz"), always, "--on-term=ignore"),
		live("liveness-never", httpProbe("/healthz"), never, "--on-term=delay:1s"),
		hooked, refused,
		{name: "startup-fails", trigger: "StartupProbe", spec: pod(5, starting), steps: startup},
		{name: "startup-hangs", trigger: "StartupProbe", spec: pod(5, hanging), steps: startup},
		{name: "readiness", trigger: "Readiness", spec: pod(5, unready), steps: []step{
			{name: "ready", until: ready, do: get("/unready")},
			{name: "not ready", until: func(s *corev1.PodStatus) bool { return !ready(s) }, do: get("/ready")},
			{name: "ready again", until: ready},
		}},
	}
}

// hooks after the start.
func hooks() []scenario {
	failing := postStart(preStop(serve("c", "--on-term=delay:500ms"), marked("c", "preStop", time.Second)),
		execute("append", journalOf("c"), "postStart", ",", "sleep", "500ms", ",", "check-file", journals+"/go"))
	return []scenario{
		{name: "poststart-exec", trigger: "Start", spec: pod(5, postStart(serve("c1"), marked("c1", "postStart", time.Second)), serve("c2")), steps: untilReady},
		{name: "poststart-fails", trigger: "PostStartHookFailed", spec: pod(6, failing), steps: []step{
			{name: "failed twice", until: backedOff("c", 1), quick: true, do: touch("go")}, {name: "ready", until: ready},
		}},
		{name: "poststart-http-fails", trigger: "PostStartHookFailed", spec: with(pod(6, postStart(servesAll("c1", "--exit-after=6s"), sleeping(2)), postStart(serve("c2"), calling("/postStart?sleep=30s", 8080))), never), steps: []step{
			{name: "ended", until: ended},
		}},
	}
}

// exits without a kill.
func exits() []scenario {
	exit := func(name string, policy corev1.RestartPolicy, code string, done step) scenario {
		return scenario{name: name, trigger: "Restart", spec: with(pod(4, servesAll("c")), policy), steps: []step{
			{name: "ready", until: ready, do: get("/exit?code=" + code)}, done,
		}}
	}
	again := step{name: "restarted", until: restartedAndReady("c", 1)}
	over := step{name: "ended", until: ended}
	loop := serve("c", "--exit-after=300ms", "--exit-code=9")
	flaky := initially(serve("i1", "--exit-after=500ms", "--exit-code=1,0", "--count-file="+journals+"/count"))
	partly := with(pod(5, servesAll("c1"), serve("c2", "--on-term=delay:500ms")), never)
	rule := servesAll("c1")
	rule.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyNever)
	rule.RestartPolicyRules = []corev1.ContainerRestartRule{{
		Action:    corev1.ContainerRestartRuleActionRestart,
		ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}},
	}}
	all := *rule.DeepCopy()
	all.RestartPolicyRules[0].Action = corev1.ContainerRestartRuleActionRestartAllContainers
	message := serve("c", "--termination-message=that is why", "--exit-after=1s", "--exit-code=2")
	fallback := serve("c", "--exit-after=1s", "--exit-code=2")
	fallback.Args = []string{"seq", "echo", "last words", ",", "exit", "2"}
	fallback.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	hungry := command("c", "sleep", "1s", ",", "allocate", "100000000", "20s")
	hungry.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("48Mi")}
	return []scenario{
		exit("exit-0-always", always, "0", again), exit("exit-3-always", always, "3", again),
		exit("exit-3-on-failure", onFailure, "3", again), exit("exit-0-on-failure", onFailure, "0", over),
		exit("exit-3-never", never, "3", over), exit("exit-0-never", never, "0", over),
		{name: "crash-loop", trigger: "Back-off", loops: true, spec: pod(4, loop), steps: []step{
			{name: "waits", until: backedOff("c", 2)},
		}},
		{name: "one-of-two-ends", trigger: "WorkloadFinished", spec: partly, steps: []step{
			{name: "ready", until: ready, do: get("/exit?code=3")}, {name: "one ended", until: terminated("c1")},
		}},
		{name: "rule-restart", trigger: "Restart", spec: with(pod(4, rule, serve("c2")), never), steps: []step{
			{name: "ready", until: ready, do: get("/exit?code=42")}, {name: "restarted", until: restartedAndReady("c1", 1)},
		}},
		{name: "rule-restart-all", trigger: "RestartAllContainers", spec: with(pod(4, initially(command("i", "append", journalOf("i"), "ran")), all, serve("c2", "--on-term=delay:500ms")), never), steps: []step{
			{name: "ready", until: ready, do: get("/exit?code=42")}, {name: "restarted", until: restartedAndReady("c2", 1)},
		}},
		{name: "init-retried", trigger: "Order of starts", spec: pod(4, flaky, initially(command("i2", "append", journalOf("i2"), "ran")), serve("c")), steps: untilReady},
		{name: "init-fails", trigger: "WorkloadFinished", spec: with(pod(4, initially(command("i1", "exit", "6")), initially(command("i2", "append", journalOf("i2"), "ran")), serve("c")), never), steps: []step{over}},
		{name: "termination-message", trigger: "Status", spec: with(pod(4, message), never), steps: []step{over}},
		{name: "message-from-log", trigger: "Status", spec: with(pod(4, fallback), never), steps: []step{over}},
		{name: "oom", trigger: "Status", spec: with(pod(4, hungry), never), steps: []step{over}},
	}
}

// starts that do not succeed.
func starts() []scenario {
	stuck := func(name, reason string, edit func(*corev1.Container)) scenario {
		c := serve("c")
		edit(&c)
		return scenario{name: name, trigger: "Start", spec: pod(4, c, serve("c2")), steps: []step{{name: "waits", until: waiting("c", reason, 0)}}}
	}
	unstartable := stuck("no-program", "CrashLoopBackOff", func(c *corev1.Container) { c.Command = []string{"/none"} })
	unstartable.loops, unstartable.steps[0].until = true, backedOff("c", 1)
	missing := stuck("image-not-there", "ImagePullBackOff", func(c *corev1.Container) { c.Image = "127.0.0.1:1/none:v1" })
	mount := scenario{name: "mount-fails", trigger: "Start", spec: pod(4, serve("c")), steps: []step{{name: "waits", until: waiting("c", "ContainerCreating", 0)}}}
	mount.spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{
		Path: "/etc/hostname", Type: ptr.To(corev1.HostPathDirectory),
	}}}}
	mount.spec.Containers[0].VolumeMounts = append(mount.spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "v", MountPath: "/v"})
	return []scenario{
		missing, mount,
		stuck("image-never", "ErrImageNeverPull", func(c *corev1.Container) { c.Image, c.ImagePullPolicy = "none:v1", corev1.PullNever }),
		stuck("image-invalid", "InvalidImageName", func(c *corev1.Container) { c.Image = "None:v1:v2" }),
		stuck("root-refused", "CreateContainerConfigError", func(c *corev1.Container) {
			c.SecurityContext = &corev1.SecurityContext{RunAsNonRoot: ptr.To(true)}
		}),
		unstartable,
		{name: "deleted-in-init", trigger: "Termination", spec: pod(4, initially(serve("i", "--on-term=delay:1s")), serve("c")), steps: []step{{name: "init runs", until: running("i")}}},
		{name: "deleted-in-back-off", trigger: "Termination", loops: true, spec: pod(4, serve("c", "--exit-after=200ms"), serve("c2", "--on-term=delay:1s")), steps: []step{{name: "waits", until: backedOff("c", 1)}}},
	}
}

// disturbances come from outside while it runs.
func disturbances() []scenario {
	init := initially(command("i", "append", journalOf("i"), "ran"))
	lost := func(name string, policy corev1.RestartPolicy, done step) scenario {
		c := preStop(serve("c", "--on-term=delay:500ms"), marked("c", "preStop", time.Second))
		return scenario{name: name, trigger: "SandboxChanged", spec: with(pod(5, init, c), policy), steps: []step{
			{name: "ready", until: ready, do: killSandbox}, done,
		}}
	}
	replaced := scenario{name: "image-changed", trigger: "DefinitionChanged", spec: pod(5, preStop(serve("c", "--on-term=delay:500ms"), marked("c", "preStop", time.Second)), serve("c2")), steps: []step{
		{name: "ready", until: ready, do: change(func(s *corev1.PodSpec) { s.Containers[0].Image = localstack.ImageV2 })},
		{name: "restarted", until: restartedAndReady("c", 1)},
	}}
	overdue := scenario{name: "deadline", trigger: "ActiveDeadline", spec: pod(4, preStop(serve("c", "--on-term=delay:1s"), marked("c", "preStop", time.Second))), steps: []step{{name: "ended", until: reason("DeadlineExceeded")}}}
	overdue.spec.ActiveDeadlineSeconds = ptr.To[int64](4)
	return []scenario{
		lost("sandbox-lost", always, step{name: "restarted", until: restartedAndReady("c", 1)}),
		lost("sandbox-lost-never", never, step{name: "ended", until: ended}),
		replaced, overdue,
	}
}

// resizes change CPU and memory while it runs.
func resizes() []scenario {
	before := resources(50, 48)
	one := func(name, trigger string, c corev1.Container, to corev1.ResourceRequirements, done func(*corev1.PodStatus) bool) scenario {
		return scenario{name: name, trigger: trigger, spec: pod(5, c, serve("c2")), steps: []step{
			{name: "ready", until: ready, do: resize(c.Name, to)},
			{name: "resized", until: func(s *corev1.PodStatus) bool { return resized(c.Name, to)(s) && done(s) }},
		}}
	}
	running, restarting := func(*corev1.PodStatus) bool { return true }, restartedAndReady("c", 1)
	hooked := preStop(serve("c", "--on-term=delay:500ms"), marked("c", "preStop", time.Second))
	const cpu, memory = corev1.ResourceCPU, corev1.ResourceMemory
	return []scenario{
		one("resize-in-place", "Resize", withResources(hooked, before), resources(60, 64), running),
		one("resize-down", "Resize", withResources(hooked, before), resources(20, 48), running),
		one("resize-sidecar", "Resize", sidecar(withResources(serve("s1"), before)), resources(60, 64), running),
		one("resize-memory-restarts", "ResizeRequired", withResources(hooked, before, memory), resources(50, 64), restarting),
		one("resize-cpu-restarts", "ResizeRequired", withResources(hooked, before, cpu), resources(60, 64), restarting),
		one("resize-other-restarts", "Resize", withResources(hooked, before, memory), resources(60, 48), running),
		{name: "resize-ignores-term", trigger: "ResizeRequired", spec: pod(3, withResources(serve("c", "--on-term=ignore"), before, memory)), steps: []step{
			{name: "ready", until: ready, do: resize("c", resources(60, 64))}, {name: "resized", until: restartedAndReady("c", 1)},
		}},
	}
}
