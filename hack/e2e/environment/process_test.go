// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// Command, arguments, environment, working directory.
func TestCommandAndEnvironment(t *testing.T) {
	t.Parallel()
	commands := []string{"echo $(GREETING) $(NONE) $$(GREETING)", "env", "readlink /proc/self/cwd", "env COMMAND_VAR"}
	w := env.Apply(t, fmt.Sprintf(`
metadata:
  labels: {app: mine}
  annotations: {note: 'a "b"'}
spec:
  serviceAccountName: somebody
  containers:
  - name: c
    image: %s
    workingDir: /tmp
    command: [/testprogram, seq, echo, "command $(GREETING)", ","]
    args: %s
    resources: {limits: {cpu: 1500m, memory: 64Mi}, requests: {cpu: 100m}}
    env:
    - {name: GREETING, value: hello}
    - {name: COMMAND_VAR, value: "$(GREETING) $(LATER) $$(GREETING)"}
    - {name: LATER, value: late}
    - {name: PATH, value: /elsewhere}
    - {name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    - {name: NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
    - {name: POD_UID, valueFrom: {fieldRef: {fieldPath: metadata.uid}}}
    - {name: LABEL, valueFrom: {fieldRef: {fieldPath: "metadata.labels['app']"}}}
    - {name: ANNOTATION, valueFrom: {fieldRef: {fieldPath: "metadata.annotations['note']"}}}
    - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
    - {name: ACCOUNT, valueFrom: {fieldRef: {fieldPath: spec.serviceAccountName}}}
    - {name: HOST_IP, valueFrom: {fieldRef: {fieldPath: status.hostIP}}}
    - {name: POD_IPS, valueFrom: {fieldRef: {fieldPath: status.podIPs}}}
    - {name: CPU_LIMIT, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}
    - {name: CPU_REQUEST, valueFrom: {resourceFieldRef: {resource: requests.cpu, divisor: 1m}}}
    - {name: MEMORY_LIMIT, valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: 1Mi}}}
    - {name: OTHERS, valueFrom: {resourceFieldRef: {containerName: other, resource: limits.memory}}}
  - {name: other, image: %s, resources: {limits: {memory: 32Mi}}}`,
		testImage, strings.Replace(show(commands...), `"seq",`, "", 1), testImage))
	nw := w.AwaitReady()
	log := w.AwaitLog("c", 0, marker(len(commands)))
	contains(t, "the command's own output", log, "command hello\n")
	got := shown(t, w, "c", commands...)
	expect(t, got, map[string]string{
		commands[0]:               "hello $(NONE) $(GREETING)",
		"readlink /proc/self/cwd": "/tmp",
		// A variable that comes later is not known yet.
		"env COMMAND_VAR": "hello $(LATER) $(GREETING)",
	})
	variables := "\n" + got["env"] + "\n"
	for _, want := range []string{
		"PATH=/elsewhere", "IMAGE_VERSION=v1", "NAME=" + nw.Name, "NAMESPACE=" + nw.Namespace, "POD_UID=" + string(nw.UID),
		"LABEL=mine", `ANNOTATION=a "b"`, "NODE=" + env.Stack.NodeName(), "ACCOUNT=somebody", "HOST_IP=" + nw.Status.HostIPs[0],
		"POD_IPS=" + strings.Join(nw.Status.PodIPs, ","), "CPU_LIMIT=2", "CPU_REQUEST=100", "MEMORY_LIMIT=64", "OTHERS=33554432",
		"HOSTNAME=" + nw.Name,
	} {
		contains(t, "environment", variables, "\n"+want+"\n")
	}
	if strings.Contains(variables, "KUBERNETES_") {
		t.Errorf("variables of Services are set: %s", variables)
	}
}

// Standard input and terminals.
func TestStandardStreams(t *testing.T) {
	t.Parallel()
	const in, out = "readlink /proc/self/fd/0", "readlink /proc/self/fd/1"
	w := env.Apply(t, fmt.Sprintf(`
containers:
- {name: plain, image: %[1]s, args: %[2]s}
- {name: tty, image: %[1]s, tty: true, args: %[2]s}
- {name: stdin, image: %[1]s, stdin: true, args: %[2]s}
- {name: waits, image: %[1]s, stdin: true, args: [seq, echo, begin, ",", copy-stdin, ",", echo, end]}
- {name: ends, image: %[1]s, args: [seq, copy-stdin, ",", echo, end, ",", serve]}`, testImage, show(in, out)))
	w.AwaitReady()
	plain, stdin := shown(t, w, "plain", in, out), shown(t, w, "stdin", in, out)
	expect(t, plain, map[string]string{in: "/dev/null"})
	contains(t, "standard input", stdin[in], "pipe:")
	for name, streams := range map[string]map[string]string{"plain": plain, "stdin": stdin} {
		contains(t, "standard output of "+name, streams[out], "pipe:")
	}
	for stream, target := range shown(t, w, "tty", in, out) {
		contains(t, stream, target, "/dev/pts/")
	}
	w.AwaitLog("ends", 0, "end")
	if log := w.AwaitLog("waits", 0, "begin"); strings.Contains(log, "end") {
		t.Errorf("standard input ended: %q", log)
	}
	if nw := w.Node(); nw.Status.Ready != "5/5" || nw.Status.Restarts != 0 {
		t.Errorf("%s ready, %d restarts", nw.Status.Ready, nw.Status.Restarts)
	}
}

func TestTerminationMessages(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, fmt.Sprintf(`
restartPolicy: Never
containers:
- {name: file, image: %[1]s, args: [seq, write-termination-message, from the file, ",", exit, "3"]}
- {name: elsewhere, image: %[1]s, args: [seq, write-termination-message, from elsewhere, /tmp/message], terminationMessagePath: /tmp/message}
- {name: log, image: %[1]s, args: [seq, echo, first, ",", echo, last words, ",", exit, "4"], terminationMessagePolicy: FallbackToLogsOnError}
- {name: log-error, image: %[1]s, args: [seq, echo-error, last words, ",", exit, "4"], terminationMessagePolicy: FallbackToLogsOnError}
- {name: file-first, image: %[1]s, args: [seq, echo, in the log, ",", write-termination-message, in the file, ",", exit, "1"], terminationMessagePolicy: FallbackToLogsOnError}
- {name: no-error, image: %[1]s, args: [echo, in the log], terminationMessagePolicy: FallbackToLogsOnError}
- {name: no-fallback, image: %[1]s, args: [seq, echo, in the log, ",", exit, "1"]}`, testImage))
	nw := w.Await("it has failed", func(nw *v1alpha1.NodeWorkload) bool { return nw.Status.Phase == v1.PodFailed })
	tests := map[string]struct {
		message, reason string
		code            int32
	}{
		"file":        {"from the file", "Error", 3},
		"elsewhere":   {"from elsewhere", "Completed", 0},
		"log":         {"first\nlast words\n", "Error", 4},
		"log-error":   {"last words\n", "Error", 4},
		"file-first":  {"in the file", "Error", 1},
		"no-error":    {"", "Completed", 0},
		"no-fallback": {"", "Error", 1},
	}
	for _, c := range nw.Status.ContainerStatuses {
		want, ended := tests[c.Name], c.State.Terminated
		if ended == nil {
			t.Errorf("%s has not ended: %+v", c.Name, c.State)
		} else if ended.Message != want.message || ended.Reason != want.reason || ended.ExitCode != want.code {
			t.Errorf("%s: message %q, reason %s, exit code %d, want %+v", c.Name, ended.Message, ended.Reason, ended.ExitCode, want)
		}
	}
	if nw.Status.KillCount != 0 {
		t.Errorf("exits made %d kills: %+v", nw.Status.KillCount, nw.Status.Kills)
	}
}

// A container that the OOM killer ends is no kill of ours.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, fmt.Sprintf(`
containers:
- {name: c, image: %s, args: [allocate, "200000000", 1m], resources: {limits: {memory: 48Mi}}}`, testImage))
	nw := w.Await("it was ended twice", func(nw *v1alpha1.NodeWorkload) bool {
		c := nw.Status.ContainerStatuses
		return len(c) == 1 && c[0].LastTerminationState.Terminated != nil
	})
	last := nw.Status.ContainerStatuses[0].LastTerminationState.Terminated
	if last.Reason != "OOMKilled" || last.ExitCode != 137 {
		t.Errorf("reason %s, exit code %d", last.Reason, last.ExitCode)
	}
	if nw.Status.KillCount != 0 || len(nw.Status.Kills) != 0 {
		t.Errorf("kills %+v, want none", nw.Status.Kills)
	}
}

// Init containers run one after the other, each to its end, before the main
// containers; the summary tells how far they are.
func TestInitContainersInOrder(t *testing.T) {
	t.Parallel()
	init := func(name, wait string) string {
		return fmt.Sprintf("- {name: %s, image: %s, args: [seq, append, /dir/order, %s begins, %s append, /dir/order, %s ends], volumeMounts: [%s]}\n", name, testImage, name, wait, name, dirMount)
	}
	w := env.Apply(t, "initContainers:\n"+init("one", `",", wait-file, /dir/go, ",",`)+init("two", `",",`)+init("three", `",",`)+fmt.Sprintf(`
containers:
- {name: a, image: %[1]s, args: [seq, append, /dir/order, main, ",", serve], volumeMounts: [%[2]s]}
- {name: b, image: %[1]s, args: [seq, append, /dir/order, main, ",", serve], volumeMounts: [%[2]s]}
volumes: [%[3]s]`, testImage, dirMount, dirVolume))
	w.AwaitFind("order", "one begins", 1)
	nw := w.Await("it waits for the first", func(nw *v1alpha1.NodeWorkload) bool { return nw.Status.Summary == "Init:0/3" })
	if nw.Status.Ready != "0/2" || nw.Status.Phase != v1.PodPending {
		t.Errorf("%s ready, phase %s", nw.Status.Ready, nw.Status.Phase)
	}
	for _, c := range nw.Status.ContainerStatuses {
		if c.State.Waiting == nil || c.State.Waiting.Reason != "PodInitializing" {
			t.Errorf("%s: %+v", c.Name, c.State)
		}
	}
	write(t, w, "go", "")
	w.AwaitReady()
	var got []string
	for _, e := range w.AwaitFind("order", "", 8) {
		got = append(got, e.Text)
	}
	if want := "one begins,one ends,two begins,two ends,three begins,three ends,main,main"; strings.Join(got, ",") != want {
		t.Errorf("order %q, want %s", got, want)
	}
}
