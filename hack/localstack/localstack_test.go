// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package localstack

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// startForTest starts a stack in a folder that is always the same, so that a
// run cleans up after one that was killed.
func startForTest(t *testing.T, name string, opts Options) *Stack {
	t.Helper()
	if testing.Short() {
		t.Skip("starts processes")
	}
	if os.Geteuid() != 0 && !opts.WithoutRuntime {
		t.Skip("containerd needs root")
	}
	opts.StateDir = filepath.Join("/var/tmp", "mw-"+name)
	opts.Progress = t.Output()
	stack, err := Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := stack.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return stack
}

func TestControlPlane(t *testing.T) {
	stack := startForTest(t, "test-plane", Options{WithoutRuntime: true, WithoutConfig: true})
	client, err := kubernetes.NewForConfig(stack.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()

	if err := stack.APIServer.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{}); err == nil {
		t.Error("kube-apiserver answers although it was stopped")
	}
	if err := stack.APIServer.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Namespaces().Get(ctx, "kube-system", metav1.GetOptions{}); err != nil {
		t.Errorf("after a restart: %v", err)
	}

	testShimIdentity(t, stack, client)
}

func TestFailureShowsTheLog(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	dir := filepath.Join(t.TempDir(), "stack")
	assets := t.TempDir()
	for _, name := range []string{"etcd", "kube-apiserver", "kubectl"} {
		script := "#!/bin/sh\necho the reason of " + name + "\nexit 3\n"
		if err := os.WriteFile(filepath.Join(assets, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("KUBEBUILDER_ASSETS", assets)
	_, err := Start(t.Context(), Options{StateDir: dir, WithoutRuntime: true, WithoutConfig: true})
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "the reason of etcd") {
		t.Errorf("error does not tell why etcd failed: %v", err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the state folder is still there: %v", err)
	}
}

func TestForeignFolderIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "thesis.txt")
	if err := os.WriteFile(file, []byte("precious"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Down(t.Context(), dir); err == nil {
		t.Error("down accepts a folder that is not a stack's")
	}
	if _, err := Start(t.Context(), Options{StateDir: dir}); err == nil {
		t.Error("start accepts a folder that is not a stack's")
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}

// TestRuntime runs a pod with a network and a host port on each of two nodes, and expects
// nothing of them to be left, whether the stack is stopped in order or after a crash.
func TestRuntime(t *testing.T) {
	tests := map[string]struct {
		end func(t *testing.T, stack *Stack)
	}{
		"stopped": {
			end: func(t *testing.T, stack *Stack) {
				if err := stack.Stop(t.Context()); err != nil {
					t.Error(err)
				}
			},
		},
		"crashed": {
			end: func(t *testing.T, stack *Stack) {
				killRuntimes(t, stack)
				if err := stack.lock.Close(); err != nil {
					t.Error(err)
				}
				if err := Down(t.Context(), stack.StateDir()); err != nil {
					t.Error(err)
				}
			},
		},
		"crashed, and its configuration is broken": {
			end: func(t *testing.T, stack *Stack) {
				killRuntimes(t, stack)
				for _, n := range stack.Nodes {
					if err := os.WriteFile(n.layout.containerdConfig(), []byte("nonsense"), 0o644); err != nil {
						t.Error(err)
					}
				}
				if err := stack.lock.Close(); err != nil {
					t.Error(err)
				}
				if err := Down(t.Context(), stack.StateDir()); err != nil {
					t.Error(err)
				}
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			stack := startForTest(t, "test-runtime", Options{WithoutControlPlane: true, Nodes: 2})
			var pods []string
			for _, n := range stack.Nodes {
				pod := runPod(t, n)
				if len(hostTraces(t, n.layout, pod)) < 5 {
					t.Errorf("a running pod shows in %q only: the check for what is left over misses something", hostTraces(t, n.layout, pod))
				}
				pods = append(pods, pod)
			}
			tc.end(t, stack)
			for i, n := range stack.Nodes {
				if diff := cmp.Diff([]string(nil), hostTraces(t, n.layout, pods[i])); diff != "" {
					t.Errorf("left over of %s (-want +got):\n%s", n.NodeName(), diff)
				}
			}
		})
	}
}

func killRuntimes(t *testing.T, stack *Stack) {
	t.Helper()
	for _, n := range stack.Nodes {
		if err := n.Containerd.Kill(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// runPod starts the test program in a pod of a node and asks it over the pod network
// and the host port. It returns the sandbox's id.
func runPod(t *testing.T, node *Node) string {
	t.Helper()
	client, err := node.CRI()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close() //nolint:errcheck // a connection of the test
	ctx := t.Context()
	ports, err := freePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	sandbox := &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: "pod", Uid: "1", Namespace: "default"},
		Hostname:     "pod",
		LogDirectory: node.PodLogDir(),
		PortMappings: []*runtimeapi.PortMapping{{ContainerPort: 8080, HostPort: int32(ports[0])}},
		Linux:        &runtimeapi.LinuxPodSandboxConfig{CgroupParent: node.CgroupParent()},
	}
	pod, err := client.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: sandbox})
	if err != nil {
		t.Fatal(err)
	}
	container, err := client.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId: pod.GetPodSandboxId(), SandboxConfig: sandbox,
		Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "main"},
			Image:    &runtimeapi.ImageSpec{Image: ImageV1},
			Args:     []string{"--http=:8080", "--on-term=ignore"},
			LogPath:  "main.log",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: container.GetContainerId()}); err != nil {
		t.Fatal(err)
	}
	status, err := client.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: pod.GetPodSandboxId()})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod's address answers", httpReady("http://"+status.GetStatus().GetNetwork().GetIp()+":8080/healthz"))
	eventually(t, "the log shows the start", func(context.Context) error {
		log, err := os.ReadFile(filepath.Join(node.PodLogDir(), "main.log"))
		if err == nil && !strings.Contains(string(log), " started pid=") {
			err = fmt.Errorf("log: %s", log)
		}
		return err
	})
	exec, err := client.ExecSync(ctx, &runtimeapi.ExecSyncRequest{
		ContainerId: container.GetContainerId(), Timeout: 10,
		Cmd: []string{ProgramPath, "seq", "env", "IMAGE_VERSION", ",", "http-get", "http://127.0.0.1:8080/readyz", ",", "exit", "7"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("v1\nok\nexit 7", fmt.Sprintf("%sexit %d", exec.GetStdout(), exec.GetExitCode())); diff != "" {
		t.Errorf("exec (-want +got):\n%s%s", diff, exec.GetStderr())
	}
	return pod.GetPodSandboxId()
}

func eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		case <-time.After(readyPoll):
		}
	}
}

// hostTraces lists what a stack has made outside its own files: mounts,
// processes, rules, cgroups, interfaces and results of CNI plugins.
func hostTraces(t *testing.T, l layout, pod string) []string {
	t.Helper()
	traces, err := mountsBelow(l)
	if err != nil {
		t.Fatal(err)
	}
	processes, err := strays(l)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range processes {
		traces = append(traces, fmt.Sprintf("process %d", p.PID))
	}
	rules, err := exec.Command(lookUpProgram("iptables"), "-w", "-t", "nat", "-S").Output()
	if err != nil {
		t.Fatal(err)
	}
	for rule := range strings.Lines(string(rules)) {
		if strings.Contains(rule, l.bridge()) || strings.Contains(rule, pod) {
			traces = append(traces, rule)
		}
	}
	paths := append(cgroupDirs(l.cgroupParent()), l.dir, l.sockets, "/sys/class/net/"+l.bridge(), filepath.Join(cniCache, "results", "*"+pod+"*"))
	for _, pattern := range paths {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		traces = append(traces, found...)
	}
	if len(traces) == 0 {
		return nil // so that it equals an empty list
	}
	return traces
}

// TestParentDies starts a stack from a process that is killed, and expects the
// stack's processes to end with it.
func TestParentDies(t *testing.T) {
	const marker = "MW_TEST_PARENT"
	dir := "/var/tmp/mw-test-parent"
	opts := Options{StateDir: dir, WithoutControlPlane: true}
	if os.Getenv(marker) != "" {
		if _, err := Start(t.Context(), opts); err != nil {
			t.Fatal(err)
		}
		fmt.Println("started")
		select {}
	}
	if testing.Short() || os.Geteuid() != 0 {
		t.Skip("containerd needs root")
	}
	parent := exec.Command(os.Args[0], "-test.run=^TestParentDies$", "-test.v")
	parent.Env = append(os.Environ(), marker+"=1")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 64<<10)
	for seen := ""; !strings.Contains(seen, "started\n"); {
		n, err := out.Read(buffer)
		if err != nil {
			t.Fatalf("%v\n%s", err, seen)
		}
		seen += string(buffer[:n])
	}
	l, err := newLayout(dir)
	if err != nil {
		t.Fatal(err)
	}
	st, err := loadState(l)
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // killed
	eventually(t, "containerd ends", func(context.Context) error {
		if now, err := lookUp(st.Processes["containerd"].PID); err == nil && now == st.Processes["containerd"] {
			return fmt.Errorf("process %d is there", now.PID)
		}
		return nil
	})
	// The next stack takes down what is left, wherever it has its own folder.
	startForTest(t, "test-next", Options{WithoutControlPlane: true, WithoutRuntime: true})
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the state folder is still there: %v", err)
	}
}

func TestTerminateLeavesOthersAlone(t *testing.T) {
	other := exec.Command("sleep", "60")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := lookUp(other.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	stale := process{PID: p.PID, Start: p.Start - 1}
	if err := stale.terminate(t.Context(), time.Second); err != nil {
		t.Error(err)
	}
	if now, err := lookUp(p.PID); err != nil || now != p {
		t.Errorf("a process was killed that only has the number of a recorded one")
	}
	if err := p.terminate(t.Context(), 0); err != nil {
		t.Error(err)
	}
	if err := other.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("ended with %v, want it killed", err)
	}
}

// A number of a process that is gone may be that of a thread by now.
func TestTerminateLeavesThreadsAlone(t *testing.T) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			t.Fatal(err)
		}
		if id == os.Getpid() {
			continue
		}
		if err := (process{PID: id, Start: 1}).terminate(t.Context(), 0); err != nil {
			t.Error(err)
		}
	}
}
