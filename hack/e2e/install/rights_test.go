// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
)

// managersRights looks at the managers' processes: what their manifest asks for has
// come into effect.
func managersRights(t *testing.T, _ *harness.Workload) {
	for _, pod := range pods(t, "manager") {
		confined(t, process(t, &pod))
	}
}

func confined(t *testing.T, pid int) {
	t.Helper()
	status := map[string]string{}
	for line := range strings.Lines(proc(t, pid, "status")) {
		key, value, _ := strings.Cut(line, ":")
		status[key] = strings.Join(strings.Fields(value), " ")
	}
	for key, want := range map[string]string{
		"Uid": "65532 65532 65532 65532", "Gid": "65532 65532 65532 65532",
		"CapEff": "0000000000000000", "CapBnd": "0000000000000000", "NoNewPrivs": "1", "Seccomp": "2",
	} {
		if status[key] != want {
			t.Errorf("the manager's %s is %s, want %s", key, status[key], want)
		}
	}
	mounts := proc(t, pid, "mountinfo")
	for line := range strings.Lines(mounts) {
		if fields := strings.Fields(line); fields[4] == "/" && !strings.HasPrefix(fields[5], "ro,") {
			t.Errorf("the manager's root is mounted %s", fields[5])
		}
	}
	if strings.Contains(mounts, " /managedworkload") || !strings.Contains(mounts, " / ") {
		t.Errorf("mounts of the manager:\n%s", mounts)
	}
}

// askWebhook lets the API server find the webhook in each manager's pod, leader or not:
// with the certificate that the leader made it is asked, asks itself and reads quotas from
// its cache, and refuses.
func askWebhook(t *testing.T, _ *harness.Workload) {
	before := kubectl(t, "get", "service", "managedworkload-webhook", "-n", system, "-o", "jsonpath={.spec.externalName}")
	port := kubectl(t, "get", configuration, "-o", "jsonpath={.webhooks[0].clientConfig.service.port}")
	kubectl(t, "create", "quota", "uncounted", "-n", "default", "--hard=pods=100")
	defer kubectl(t, "delete", "quota", "uncounted", "-n", "default")
	managers := pods(t, "manager")
	if len(managers) != 2 {
		t.Errorf("%d managers", len(managers))
	}
	for _, manager := range managers {
		ports := manager.Spec.Containers[0].Ports
		i := slices.IndexFunc(ports, func(port corev1.ContainerPort) bool { return port.Name == "webhook" })
		reach(t, manager.Status.PodIP, strconv.Itoa(int(ports[i].ContainerPort)))
		awaitRefusal(t, manager.Name)
	}
	reach(t, before, port)
}

// awaitRefusal applies what the webhook refuses, until it is asked.
func awaitRefusal(t *testing.T, manager string) {
	t.Helper()
	const refused = "apiVersion: managedworkload.dev/v1alpha1\nkind: ManagedWorkload\nmetadata: {name: refused, namespace: default}\n" +
		"spec: {template: {spec: {containers: [{name: c, image: i}], volumes: [{name: v, persistentVolumeClaim: {claimName: v}}]}}}\n"
	file := filepath.Join(t.TempDir(), "refused.yaml")
	if err := os.WriteFile(file, []byte(refused), 0o600); err != nil {
		t.Fatal(err)
	}
	var said error
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, harness.Timeout, true, func(ctx context.Context) (bool, error) {
		_, said = env.Stack.Kubectl(ctx, "apply", "--dry-run=server", "-f", file)
		return said != nil && strings.Contains(said.Error(), "spec.template.spec.volumes[0].persistentVolumeClaim") &&
			strings.Contains(said.Error(), "ResourceQuota uncounted limits the Pods"), nil
	})
	if err != nil {
		t.Fatalf("no refusal by the webhook of %s: %v", manager, said)
	}
}

const configuration = "validatingwebhookconfiguration/managedworkload-webhook"

// reach says where the API server finds the webhook: no kube-proxy routes a Service's
// address here.
func reach(t *testing.T, host, port string) {
	t.Helper()
	kubectl(t, "patch", "service", "managedworkload-webhook", "-n", system, "--type=merge", "-p", `{"spec":{"externalName":"`+host+`"}}`)
	kubectl(t, "patch", configuration, "--type=json", "-p", `[{"op":"replace","path":"/webhooks/0/clientConfig/service/port","value":`+port+`}]`)
}

// shimsRights acts with the token that the kubelet has put into the shim's pod.
func shimsRights(t *testing.T, w *harness.Workload) {
	pid := process(t, pod(t, "shim"))
	cfg := rest.AnonymousClientConfig(env.Stack.RESTConfig())
	cfg.BearerToken = proc(t, pid, "root/var/run/secrets/kubernetes.io/serviceaccount/token")
	shim, err := client.New(cfg, client.Options{Scheme: env.Kube.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	own := w.Node()
	other := own.DeepCopy()
	other.ObjectMeta = metav1.ObjectMeta{Namespace: own.Namespace, Name: "of-another-node"}
	other.Spec.NodeName = "another-node"
	if err := env.Kube.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Kube.Delete(context.WithoutCancel(t.Context()), other); err != nil {
			t.Error(err)
		}
	})

	merge := func(nw *v1alpha1.NodeWorkload, patch string) error {
		return shim.Patch(t.Context(), nw.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(patch)), client.DryRunAll)
	}
	const letGo, touch = `{"metadata":{"finalizers":null}}`, `{"metadata":{"annotations":{"example.com/touched":"yes"}}}`
	if err := merge(own, letGo); err != nil {
		t.Errorf("the finalizer of its own NodeWorkload: %v", err)
	}
	for what, err := range map[string]error{
		"an annotation of its own NodeWorkload": merge(own, touch),
		"a NodeWorkload of another node":        merge(other, touch),
		"the status of one of another node":     reportAnother(t, shim, other),
	} {
		if err == nil || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy") {
			t.Errorf("%s: %v, want the policy's refusal", what, err)
		}
	}
	for what, err := range map[string]error{
		"Secrets":           shim.List(t.Context(), &corev1.SecretList{}),
		"Secrets beside it": shim.List(t.Context(), &corev1.SecretList{}, client.InNamespace(system)),
		"ConfigMaps":        shim.List(t.Context(), &corev1.ConfigMapList{}, client.InNamespace(system)),
		"ManagedWorkloads":  shim.List(t.Context(), &v1alpha1.ManagedWorkloadList{}),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("reading %s: %v, want it forbidden", what, err)
		}
	}
}

// reportAnother tries again while another client writes the object too.
func reportAnother(t *testing.T, shim client.Client, nw *v1alpha1.NodeWorkload) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		nw := nw.DeepCopy()
		if err := shim.Get(t.Context(), client.ObjectKeyFromObject(nw), nw); err != nil {
			t.Fatal(err)
		}
		nw.Status.Summary = "written by another node's shim"
		return shim.Status().Update(t.Context(), nw)
	})
}
