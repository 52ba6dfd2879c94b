// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package localstack

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// noSandbox is in the names of no other stack's results either.
const noSandbox = "sandbox-of-the-kubelet"

// TestKubelet runs a Pod on a stack with a kubelet, a scheduler and a controller
// manager, and expects no trace of any of them afterwards.
func TestKubelet(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	root, err := repositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{kubeletName, schedulerName, controllerManagerName} {
		if !executable(filepath.Join(ToolsDir(root), name)) {
			t.Skipf("%s is not built; hack/tools/build.sh %s builds it", name, name)
		}
	}
	if err := refuseSecondKubelet(); err != nil {
		t.Skip(err)
	}
	before := kubeletTraces(t)
	maps.DeleteFunc(before, func(name, _ string) bool { return dangling(name) }) // a kubelet removes these
	stack := startForTest(t, "test-kubelet", Options{
		WithoutConfig: true, WithKubelet: true, WithScheduler: true, WithControllerManager: true,
	})
	client, err := kubernetes.NewForConfig(stack.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "c", Image: ImageV1, VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}}},
			Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory},
			}}},
		},
	}
	if _, err := client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod runs", func(ctx context.Context) error {
		pod, err := client.CoreV1().Pods("default").Get(ctx, "p", metav1.GetOptions{})
		if err == nil && pod.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("phase %s on node %q", pod.Status.Phase, pod.Spec.NodeName)
		}
		return err
	})
	node := stack.layout.kubeletNode()
	if len(hostTraces(t, node, noSandbox)) < 5 {
		t.Errorf("a running pod shows in %q only: the check for what is left over misses something", hostTraces(t, node, noSandbox))
	}
	if err := stack.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, l := range []layout{stack.layout, node} {
		if diff := cmp.Diff([]string(nil), hostTraces(t, l, noSandbox)); diff != "" {
			t.Errorf("left over (-want +got):\n%s", diff)
		}
	}
	if diff := cmp.Diff(before, kubeletTraces(t)); diff != "" {
		t.Errorf("the host is not as it was (-before +after):\n%s", diff)
	}
}

// dangling reports whether a path is a link to what is not there.
func dangling(path string) bool {
	_, linked := os.Readlink(path)
	_, there := os.Stat(path)
	return linked == nil && there != nil
}

// kubeletTraces are what a kubelet changes outside its own folders.
func kubeletTraces(t *testing.T) map[string]string {
	t.Helper()
	traces := map[string]string{}
	for _, name := range kubeletSysctls {
		value, err := os.ReadFile(filepath.Join("/proc/sys", name))
		if err != nil {
			t.Fatal(err)
		}
		traces[name] = string(value)
	}
	for _, dir := range kubeletFolders {
		_, err := os.Stat(dir)
		traces[dir] = fmt.Sprint(err == nil)
	}
	links, err := filepath.Glob(filepath.Join(containerLinks, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		traces[link] = "there"
	}
	return traces
}
