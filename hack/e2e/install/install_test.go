// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
	"github.com/managedworkload/managedworkload/hack/localstack"
)

// step is a part of the way; those after it build on it. They share a workload.
type step struct {
	name string
	run  func(*testing.T, *harness.Workload)
}

func TestInstallation(t *testing.T) {
	t.Cleanup(func() {
		if t.Failed() {
			tell(t)
		}
	})
	w := env.New(t)
	for _, s := range []step{
		{"install", install},
		{"manager's rights", managersRights},
		{"webhook", askWebhook},
		{"workload", runWorkload},
		{"kill", killContainer},
		{"reserve", reserve},
		{"samples", runSamples},
		{"new namespace", runInNewNamespace},
		{"plan in the shim's pod", planInPod},
		{"shim's rights", shimsRights},
		{"restart of the shim", restartShim},
		{"crash of the shim", crashShim},
		{"metrics", readMetrics},
		{"manager that hangs", hangManager},
		{"manager that is killed", killManager},
		{"component objects", turnObjectsOnAndOff},
		{"upgrade", upgrade},
		{"removal", remove},
	} {
		if !t.Run(s.name, func(t *testing.T) { s.run(t, w) }) {
			return
		}
	}
}

// tell shows what a person would look at when an installation does not work.
func tell(t *testing.T) {
	for _, args := range [][]string{
		{"get", "pods,mw,nw", "-A", "-o", "wide"}, {"describe", "pods", "-n", system}, {"get", "events", "-A"},
		{"logs", "-n", system, manager, "--tail=50"}, {"logs", "-n", system, shims, "--tail=100"},
	} {
		out, err := env.Stack.Kubectl(context.Background(), args...)
		t.Logf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// install has a node in the cluster that no kubelet keeps, as --register-node makes
// it: no kubelet there would run the DaemonSet's pod, which must not wait for it.
func install(t *testing.T, _ *harness.Workload) {
	edge := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "edge", Labels: map[string]string{
			corev1.LabelOSStable: "linux", "managedworkload.dev/registered-by": "shim",
		}},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: v1alpha1.TaintNoPods, Effect: corev1.TaintEffectNoSchedule}}},
	}
	if err := env.Kube.Create(t.Context(), edge); err != nil {
		t.Fatal(err)
	}
	apply(t, "v1")
	rolledOut(t, manager)
	rolledOut(t, shims)
	rolledOut(t, reserved)
	if err := env.Kube.Delete(t.Context(), edge); err != nil {
		t.Fatal(err)
	}
}

// runWorkload runs what needs most of the way between the shim's container and its
// containerd: volumes of every kind, a group for them, the pod network, hooks.
func runWorkload(t *testing.T, w *harness.Workload) {
	if err := os.MkdirAll(filepath.Join(w.Dir, "parts", "one"), 0o777); err != nil {
		t.Fatal(err)
	}
	w.Apply(workload)
	nw := w.AwaitReady()
	log := w.AwaitLog("main", 0, "started ")
	for _, want := range []string{
		"dgrwxrwxrwx 0 2345 disk\n", "dgtrwxrwxrwx 0 2345 memory\n", // with fsGroup
		"from the init container", // through the disk
		" 0 0 part\n",             // the hostPath's subPath
	} {
		if !strings.Contains(log, want) {
			t.Errorf("main does not say %q:\n%s", want, log)
		}
	}
	// The shim's own resolv.conf has the cluster's DNS, the node's has not.
	if strings.Contains(log, localstack.KubeletClusterDNS) {
		t.Errorf("a resolver configuration that is not the node's:\n%s", log)
	}
	if _, err := os.Stat(filepath.Join(w.Dir, "made", "here")); err != nil {
		t.Errorf("a hostPath that the shim makes: %v", err)
	}
	if content, err := os.ReadFile(filepath.Join(w.Dir, "parts", "one", "part")); err != nil || string(content) != "through a subPath" {
		t.Errorf("a hostPath's subPath: %q, %v", content, err)
	}
	memory := emptyDir(nw, "memory")
	if mounts := mountsBelow(t, memory); len(mounts) != 1 || !strings.HasPrefix(mounts[0], "tmpfs ") {
		t.Errorf("on the node, %s is mounted as %q", memory, mounts)
	}
	if content, err := os.ReadFile(filepath.Join(memory, "file")); err != nil || string(content) != "kept in memory" {
		t.Errorf("the file in memory, on the node: %q, %v", content, err)
	}
	if len(nw.Status.PodIPs) == 0 {
		t.Fatal("no pod IP")
	}
	response, err := http.Get("http://" + nw.Status.PodIPs[0] + ":8080/healthz")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close() //nolint:errcheck // only read
	if body, err := io.ReadAll(response.Body); err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("over the pod network: %s %q, %v", response.Status, body, err)
	}
}

const workload = `
terminationGracePeriodSeconds: 20
securityContext: {fsGroup: 2345}
initContainers:
- name: init
  image: ` + testImage + `
  args: [write, /disk/file, from the init container]
  volumeMounts: [{name: disk, mountPath: /disk}]
- name: side
  image: ` + testImage + `
  restartPolicy: Always
  args: [serve, --log-file=/dir/side]
  volumeMounts: [{name: dir, mountPath: /dir}]
containers:
- name: main
  image: ` + testImage + `
  args: [seq, stat, /disk, ",", stat, /memory, ",", cat, /disk/file, ",", cat, /etc/resolv.conf, ",", write, /memory/file, kept in memory, ",",
    write, /part/part, through a subPath, ",", ls, /part, ",",
    serve, "--http=:8080", --log-file=/dir/main, --termination-message=bye]
  ports: [{name: http, containerPort: 8080}]
  livenessProbe: {httpGet: {path: /healthz, port: http}, periodSeconds: 1}
  readinessProbe: {exec: {command: [/testprogram, check-file, /memory/file]}, periodSeconds: 1}
  lifecycle: {preStop: {exec: {command: [/testprogram, append, /dir/main, preStop]}}}
  resources: {requests: {memory: 16Mi}, limits: {memory: 64Mi}}
  volumeMounts:
  - {name: dir, mountPath: /dir}
  - {name: disk, mountPath: /disk}
  - {name: memory, mountPath: /memory}
  - {name: made, mountPath: /made}
  - {name: parts, mountPath: /part, subPath: one}
- name: second
  image: ` + testImage + `
  args: [serve, --log-file=/dir/second]
  volumeMounts: [{name: dir, mountPath: /dir}]
volumes:
- {name: dir, hostPath: {path: $DIR, type: Directory}}
- {name: made, hostPath: {path: $DIR/made/here, type: DirectoryOrCreate}}
- {name: parts, hostPath: {path: $DIR/parts}}
- {name: disk, emptyDir: {}}
- {name: memory, emptyDir: {medium: Memory, sizeLimit: 1Mi}}
`

// killContainer has a changed definition kill a container, and nothing else.
func killContainer(t *testing.T, w *harness.Workload) {
	before := w.Node()
	setEnv(w, "main", "first change")
	kill := w.AwaitTrigger("main", v1alpha1.TriggerDefinitionChanged)
	if kill.Outcome != v1alpha1.KillOutcomeGraceful || kill.PreStop == nil || kill.PreStop.Outcome != v1alpha1.PreStopSucceeded {
		t.Errorf("the kill: %+v", kill)
	}
	nw := w.AwaitReady()
	status := containerStatus(t, nw, "main")
	if ended := status.LastTerminationState.Terminated; status.RestartCount != 1 || ended == nil || ended.Message != "bye" || ended.ExitCode != 0 {
		t.Errorf("after the kill: %+v", status)
	}
	for _, name := range []string{"side", "second"} {
		if diff := cmp.Diff(containerStatus(t, before, name), containerStatus(t, nw, name)); diff != "" {
			t.Errorf("container %s (-before +after):\n%s", name, diff)
		}
	}
	var texts []string
	for _, entry := range w.Journal("main") {
		text, _, _ := strings.Cut(entry.Text, " pid=")
		texts = append(texts, text)
	}
	want := []string{"started", "preStop", "signal SIGTERM", "stopped code=0", "started"}
	if fmt.Sprint(texts) != fmt.Sprint(want) {
		t.Errorf("the container saw %q, want %q", texts, want)
	}
}

// runSamples applies config/samples as they are.
func runSamples(t *testing.T, _ *harness.Workload) {
	samples := filepath.Join("config", "samples")
	kubectl(t, "apply", "-k", samples)
	kubectl(t, "wait", "mw", "--all", "--for=condition=Ready", "--timeout="+harness.Timeout.String())
}

// runInNewNamespace applies a workload right after its namespace, as a file with both
// does: the dry run of its Pod is refused until the namespace has a service account.
func runInNewNamespace(t *testing.T, _ *harness.Workload) {
	env.Apply(t, "containers: [{name: c, image: "+testImage+"}]").AwaitReady()
}

func setEnv(w *harness.Workload, container, value string) {
	w.Change(func(template *corev1.PodTemplateSpec) {
		for i := range template.Spec.Containers {
			if c := &template.Spec.Containers[i]; c.Name == container {
				c.Env = []corev1.EnvVar{{Name: "CHANGE", Value: value}}
			}
		}
	})
}
