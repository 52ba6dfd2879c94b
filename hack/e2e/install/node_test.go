// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
)

// emptyDir is where a volume of the workload lies on the node.
func emptyDir(nw *v1alpha1.NodeWorkload, volume string) string {
	return filepath.Join(env.Stack.ShimStateDir(), "pods", string(nw.UID), "volumes/kubernetes.io~empty-dir", volume)
}

// mountsBelow are the type and path of the node's mounts at a folder and below.
func mountsBelow(t *testing.T, dir string) []string {
	t.Helper()
	infos, err := mountinfo.GetMounts(mountinfo.PrefixFilter(dir))
	if err != nil {
		t.Fatal(err)
	}
	var mounts []string
	for _, info := range infos {
		mounts = append(mounts, info.FSType+" "+info.Mountpoint)
	}
	return mounts
}

// cgroupsBelow are the cgroups inside the shim's, in any hierarchy.
func cgroupsBelow(t *testing.T) []string {
	t.Helper()
	var found []string
	parent := env.Stack.CgroupParent()
	err := filepath.WalkDir("/sys/fs/cgroup", func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // ended meanwhile
		}
		if err == nil && entry.IsDir() && strings.Contains(path, parent+"/") {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func containerStatus(t *testing.T, nw *v1alpha1.NodeWorkload, name string) corev1.ContainerStatus {
	t.Helper()
	for _, status := range append(nw.Status.InitContainerStatuses, nw.Status.ContainerStatuses...) {
		if status.Name == name {
			return status
		}
	}
	t.Fatalf("no container %s in %+v", name, nw.Status)
	return corev1.ContainerStatus{}
}

// running says of every container of every workload which one it is.
func running(t *testing.T) map[string]string {
	t.Helper()
	list := &v1alpha1.NodeWorkloadList{}
	if err := env.Kube.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, nw := range list.Items {
		for _, status := range append(nw.Status.InitContainerStatuses, nw.Status.ContainerStatuses...) {
			all[nw.Name+"/"+status.Name] = fmt.Sprintf("%s, restarted %d times", status.ContainerID, status.RestartCount)
		}
	}
	return all
}

// pod is the only one of a component, but for those that end.
func pod(t *testing.T, component string) *corev1.Pod {
	t.Helper()
	all := pods(t, component)
	if len(all) != 1 {
		t.Fatalf("%d pods of the %s", len(all), component)
	}
	return &all[0]
}

// pods are those of a component, but for those that end.
func pods(t *testing.T, component string) []corev1.Pod {
	t.Helper()
	list := &corev1.PodList{}
	err := env.Kube.List(t.Context(), list, client.InNamespace(system), client.MatchingLabels{"app.kubernetes.io/component": component})
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool { return !pod.DeletionTimestamp.IsZero() })
}

// awaitPod waits until a pod of a component that is ready is as wanted.
func awaitPod(t *testing.T, component, what string, done func(*corev1.Pod) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), harness.Timeout)
	defer cancel()
	// A watch begins with what is there.
	watch, err := env.Kube.Watch(ctx, &corev1.PodList{}, client.InNamespace(system), client.MatchingLabels{"app.kubernetes.io/component": component})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	for event := range watch.ResultChan() {
		pod, ok := event.Object.(*corev1.Pod)
		if ok && pod.DeletionTimestamp.IsZero() && len(pod.Status.ContainerStatuses) > 0 && pod.Status.ContainerStatuses[0].Ready && done(pod) {
			return
		}
	}
	t.Fatalf("a pod of the %s, until %s: %v", component, what, ctx.Err())
}

// process is the first process of a pod's only container.
func process(t *testing.T, pod *corev1.Pod) int {
	t.Helper()
	cri, err := env.Stack.KubeletCRI()
	if err != nil {
		t.Fatal(err)
	}
	defer cri.Close() //nolint:errcheck // only a connection
	_, id, _ := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
	status, err := cri.ContainerStatus(t.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: id, Verbose: true})
	if err != nil {
		t.Fatal(err)
	}
	var info struct {
		PID int `json:"pid"`
	}
	if err := json.Unmarshal([]byte(status.GetInfo()["info"]), &info); err != nil || info.PID == 0 {
		t.Fatalf("process of %s: %v, %v", pod.Name, status.GetInfo(), err)
	}
	return info.PID
}

// proc reads a file of a process's folder.
func proc(t *testing.T, pid int, file string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), file))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
