// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
)

func TestHooks(t *testing.T) {
	t.Parallel()
	// A second container answers the HTTP hooks and writes down who asked.
	tests := map[string]struct {
		hook        string
		handler     string
		least       time.Duration
		wantOutcome v1alpha1.PreStopOutcome
	}{
		"exec":            {`{exec: {command: [/testprogram, sleep, 1s]}}`, "exec", time.Second, v1alpha1.PreStopSucceeded},
		"exec that fails": {`{exec: {command: [/testprogram, exit, "3"]}}`, "exec", 0, v1alpha1.PreStopFailed},
		"no such command": {`{exec: {command: [/no-such-command]}}`, "exec", 0, v1alpha1.PreStopFailed},
		"httpGet":         {`{httpGet: {path: /healthz, port: http}}`, "httpGet", 0, v1alpha1.PreStopSucceeded},
		"http 500 is ok":  {`{httpGet: {path: "/status?code=500", port: 8080}}`, "httpGet", 0, v1alpha1.PreStopSucceeded},
		"no connection":   {`{httpGet: {path: /, port: 9}}`, "httpGet", 0, v1alpha1.PreStopFailed},
		"sleep":           {`{sleep: {seconds: 2}}`, "sleep", 2 * time.Second, v1alpha1.PreStopSucceeded},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := env.Apply(t, fmt.Sprintf(`
containers:
- name: c
  image: managedworkload.dev/testprogram:v1
  args: [serve, --http=:8080, --log-file=/dir/c]
  ports: [{name: http, containerPort: 8080}]
  readinessProbe: {httpGet: {path: /readyz, port: http}, periodSeconds: 1}
  lifecycle: {preStop: %s}
  volumeMounts: [{name: dir, mountPath: /dir}]`, tc.hook)+dirVolume)
			w.AwaitReady()
			kill := w.DeleteAndCollect()[0]
			if kill.PreStop == nil || kill.PreStop.Handler != tc.handler || kill.PreStop.Outcome != tc.wantOutcome {
				t.Fatalf("preStop %+v, want %s by %s", kill.PreStop, tc.wantOutcome, tc.handler)
			}
			if took := kill.StopTime.Sub(kill.StartTime.Time); took < tc.least {
				t.Errorf("SIGTERM came %s after the kill began, before the hook was over", took)
			}
			if kill.Outcome != v1alpha1.KillOutcomeGraceful {
				t.Errorf("outcome %s", kill.Outcome)
			}
			if tc.wantOutcome == v1alpha1.PreStopFailed {
				w.AwaitEvent("FailedPreStopHook", "PreStopHook failed")
			}
		})
	}
}

func TestPostStartHooks(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"exec":    `{exec: {command: [/testprogram, append, /dir/c, postStart]}}`,
		"httpGet": `{httpGet: {path: /healthz, port: 8080}}`,
		"sleep":   `{sleep: {seconds: 1}}`,
	}
	for name, hook := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := env.Apply(t, fmt.Sprintf(`
initContainers:
- {name: server, image: managedworkload.dev/testprogram:v1, restartPolicy: Always, args: [serve, --http=:8080],
  startupProbe: {httpGet: {path: /startupz, port: 8080}, periodSeconds: 1}}
containers:
- {name: c, image: managedworkload.dev/testprogram:v1, args: [serve, --log-file=/dir/c], lifecycle: {postStart: %s}, volumeMounts: [{name: dir, mountPath: /dir}]}`, hook)+dirVolume)
			nw := w.AwaitReady()
			if nw.Status.KillCount != 0 {
				t.Errorf("%d kills", nw.Status.KillCount)
			}
			if name == "exec" && len(w.AwaitFind("c", "postStart", 1)) != 1 {
				t.Errorf("journal %q, want one postStart", harness.Texts(w.Journal("c")))
			}
		})
	}
}

// A container that exits during its hook, whoever ended it, needs neither hook nor grace period any
// more, and its record says so.
func TestExitDuringAHook(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, `
terminationGracePeriodSeconds: 60
containers:
- {name: own, image: managedworkload.dev/testprogram:v1, args: [serve], lifecycle: {preStop: {exec: {command: [/testprogram, seq, signal, TERM, "1", ",", sleep, 50s]}}}}
- {name: killed, image: managedworkload.dev/testprogram:v1, args: [serve], lifecycle: {preStop: {sleep: {seconds: 50}}}}`)
	w.AwaitReady()
	process := w.Processes()["killed"]
	begun := time.Now()
	w.Delete()
	w.AwaitPhase("killed", v1alpha1.KillPhasePreStop)
	if err := unix.Kill(process, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	want := map[string]v1alpha1.KillOutcome{"own": v1alpha1.KillOutcomeGraceful, "killed": v1alpha1.KillOutcomeAlreadyStopped}
	for _, kill := range w.CollectUntilGone() {
		if kill.Outcome != want[kill.Container] || kill.ExitedDuring != v1alpha1.KillPhasePreStop {
			t.Errorf("%s: outcome %s, exited during %q: %s", kill.Container, kill.Outcome, kill.ExitedDuring, kill.Summary)
		}
	}
	if took := time.Since(begun); took > 40*time.Second {
		t.Errorf("the deletion took %s: it waited for a hook", took)
	}
}

// Each probe kind by each handler: healthy keeps, unhealthy acts.
func TestProbes(t *testing.T) {
	t.Parallel()
	handlers := map[string]string{
		"exec": `exec: {command: [/testprogram, check-no-file, /dir/fail]}`,
		"http": `httpGet: {path: /healthz, port: http, httpHeaders: [{name: X-A, value: b}]}`,
		"tcp":  `tcpSocket: {port: 8081}`,
		"grpc": `grpc: {port: 8082, service: liveness}`,
	}
	for kind, handler := range handlers {
		for _, probe := range []string{"livenessProbe", "readinessProbe", "startupProbe"} {
			t.Run(kind+" "+probe, func(t *testing.T) {
				t.Parallel()
				w := env.New(t)
				if probe == "startupProbe" {
					touch(t, w, "fail")
				}
				w.Apply(fmt.Sprintf(`
containers:
- name: c
  image: managedworkload.dev/testprogram:v1
  args: [serve, "--http=:8080", "--tcp=:8081", "--grpc=:8082", --fail-file=/dir/fail, --log-file=/dir/c]
  ports: [{name: http, containerPort: 8080}]
  %s: {%s, periodSeconds: 1, failureThreshold: 2}
  volumeMounts: [{name: dir, mountPath: /dir}]`, probe, handler) + dirVolume)
				switch probe {
				case "livenessProbe":
					w.AwaitReady()
					touch(t, w, "fail")
					w.AwaitTrigger("c", v1alpha1.TriggerLivenessProbe)
				case "startupProbe":
					w.AwaitTrigger("c", v1alpha1.TriggerStartupProbe)
				case "readinessProbe":
					w.AwaitReady()
					touch(t, w, "fail")
					nw := w.Await("it is not ready", func(nw *v1alpha1.NodeWorkload) bool { return nw.Status.Ready == "0/1" })
					if nw.Status.KillCount != 0 || nw.Status.Restarts != 0 {
						t.Errorf("%d kills and %d restarts by a readiness probe", nw.Status.KillCount, nw.Status.Restarts)
					}
				}
			})
		}
	}
}

// An exec probe whose command cannot be started never kills.
func TestProbeThatCannotRunNeverKills(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, `
containers:
- name: c
  image: managedworkload.dev/testprogram:v1
  livenessProbe: {exec: {command: [/no-such-command]}, periodSeconds: 1, failureThreshold: 1}`)
	w.AwaitReady()
	w.AwaitEvent("Unhealthy", "Liveness probe errored")
	if nw := w.Node(); nw.Status.KillCount != 0 {
		t.Errorf("%d kills: %+v", nw.Status.KillCount, nw.Status.Kills)
	}
}

// A process that a probe's command has left behind keeps the command's output open. The probe has
// its verdict by its own timeout nevertheless.
func TestExecThatLeavesAProcess(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, `
containers:
- name: c
  image: managedworkload.dev/testprogram:v1
  livenessProbe: {exec: {command: [/testprogram, seq, leave, sleep, 1h, ",", sleep, 1h]}, periodSeconds: 1, failureThreshold: 2}`)
	if kill := w.AwaitTrigger("c", v1alpha1.TriggerLivenessProbe); !strings.Contains(kill.Summary, "timeout") {
		t.Errorf("summary %q, want that of a timeout", kill.Summary)
	}
}

func TestRestartPolicyOnFailure(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, `
restartPolicy: OnFailure
containers:
- {name: c, image: managedworkload.dev/testprogram:v1, args: [serve, --exit-after=1s, "--exit-code=3,0", --count-file=/dir/n, --log-file=/dir/c], volumeMounts: [{name: dir, mountPath: /dir}]}`+dirVolume)
	nw := w.Await("it has succeeded", func(nw *v1alpha1.NodeWorkload) bool { return nw.Status.Phase == "Succeeded" })
	if nw.Status.Restarts != 1 || nw.Status.KillCount != 0 || nw.Status.Summary != "Completed" {
		t.Errorf("%d restarts, %d kills, %q: want one restart and no kill", nw.Status.Restarts, nw.Status.KillCount, nw.Status.Summary)
	}
	w.AwaitObject("Ready is True, Completed", func(mw *v1alpha1.ManagedWorkload) bool {
		return slices.ContainsFunc(mw.Status.Conditions, func(c metav1.Condition) bool {
			return c.Type == v1alpha1.ConditionReady && c.Status == "True" && c.Reason == v1alpha1.ReasonCompleted
		})
	})
}

func TestRestartPolicyNever(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, `
restartPolicy: Never
containers:
- {name: c, image: managedworkload.dev/testprogram:v1, args: [exit, "3"]}`)
	nw := w.Await("it has failed", func(nw *v1alpha1.NodeWorkload) bool { return nw.Status.Phase == "Failed" })
	if nw.Status.Restarts != 0 || nw.Status.KillCount != 0 || nw.Status.Summary != "Error" {
		t.Errorf("%d restarts, %d kills, %q", nw.Status.Restarts, nw.Status.KillCount, nw.Status.Summary)
	}
}

// The first restart is at once, the second 10 s and the third 20 s after the
// exit, by the containers' own clocks.
func TestBackoff(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, `
containers:
- {name: c, image: managedworkload.dev/testprogram:v1, args: [serve, --exit-after=500ms, --exit-code=1, --log-file=/dir/c], volumeMounts: [{name: dir, mountPath: /dir}]}`+dirVolume)
	nw := w.Await("it backs off", func(nw *v1alpha1.NodeWorkload) bool { return nw.Status.Summary == "CrashLoopBackOff" })
	if want := "back-off 10s restarting failed container=c pod=" + nw.Name + "_" + nw.Namespace; !strings.HasPrefix(nw.Status.ContainerStatuses[0].State.Waiting.Message, want) {
		t.Errorf("message %q, want it to begin with %q", nw.Status.ContainerStatuses[0].State.Waiting.Message, want)
	}
	starts, ends := w.AwaitFind("c", "started", 4), w.Find("c", "stopped")
	between(t, "the first restart", ends[0], starts[1], 0)
	between(t, "the second restart", ends[1], starts[2], 10*time.Second)
	between(t, "the third restart", ends[2], starts[3], 20*time.Second)
	w.AwaitEvent("BackOff", "Back-off restarting failed container c in pod")
}
