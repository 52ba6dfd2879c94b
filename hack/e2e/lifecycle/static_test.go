// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/mirror"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/localstack"
)

// staticFile writes a workload into the shim's directory; it ends with the test.
func staticFile(t *testing.T, namespace, name string) {
	t.Helper()
	content := fmt.Sprintf(`
apiVersion: managedworkload.dev/v1alpha1
kind: NodeWorkload
metadata: {namespace: %s, name: %s}
spec: {template: {spec: {containers: [{name: c, image: %s, args: [serve]}]}}}
`, namespace, name, localstack.ImageV1)
	path := filepath.Join(staticDir, name+".yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
			t.Error(err)
		}
	})
}

// A workload from a file shows in the API. Deleting what shows it kills nothing.
func TestAStaticWorkloadHasAMirror(t *testing.T) {
	t.Parallel()
	w := env.New(t) // for its namespace
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.Namespace}}
	allow := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:"true"}}}`, v1alpha1.LabelAllowMirrors))
	if err := env.Kube.Patch(t.Context(), ns, allow); err != nil {
		t.Fatal(err)
	}
	staticFile(t, w.Namespace, "static")
	key := client.ObjectKey{Namespace: w.Namespace, Name: mirror.Name("static", env.Stack.NodeName())}
	first := env.AwaitNodeWorkload(t, key, "a mirror that runs", func(nw *v1alpha1.NodeWorkload, exists bool) bool {
		return exists && mirror.Is(nw) && nw.Status.Phase == corev1.PodRunning
	})
	if err := env.Kube.Delete(context.Background(), first); err != nil {
		t.Fatal(err)
	}
	second := env.AwaitNodeWorkload(t, key, "another mirror that runs", func(nw *v1alpha1.NodeWorkload, exists bool) bool {
		return exists && nw.UID != first.UID && nw.Status.Phase == corev1.PodRunning
	})
	if before, after := first.Status.ContainerStatuses[0].ContainerID, second.Status.ContainerStatuses[0].ContainerID; before != after {
		t.Errorf("container %s was replaced by %s when its mirror was deleted", before, after)
	}
	if err := os.Remove(filepath.Join(staticDir, "static.yaml")); err != nil {
		t.Fatal(err)
	}
	env.AwaitNodeWorkload(t, key, "no mirror", func(_ *v1alpha1.NodeWorkload, exists bool) bool { return !exists })
}
