// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
)

// awaitRefused waits until the node does not take the workload's template, and checks why.
func awaitRefused(t *testing.T, w *harness.Workload, reason, message string) *v1alpha1.NodeWorkload {
	t.Helper()
	nw := w.Await("the node refuses its template", func(nw *v1alpha1.NodeWorkload) bool {
		return meta.IsStatusConditionFalse(nw.Status.Conditions, v1alpha1.ConditionTemplateAccepted)
	})
	c := meta.FindStatusCondition(nw.Status.Conditions, v1alpha1.ConditionTemplateAccepted)
	if c.Reason != reason || c.Message != message {
		t.Errorf("condition %s: %s, want %s: %s", c.Reason, c.Message, reason, message)
	}
	w.AwaitEvent(reason, message)
	return nw
}

// A host port belongs to one workload of a node, whatever their namespaces: the second one is
// started when the first is gone.
func TestHostPortOfAnotherWorkload(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	template := fmt.Sprintf(`containers: [{name: c, image: %s, args: [serve], ports: [{containerPort: 8080, hostPort: %d}]}]`, testImage, port)
	first := env.Apply(t, template)
	first.AwaitReady()
	second := env.Apply(t, template)
	nw := awaitRefused(t, second, "NodePorts", fmt.Sprintf("Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports: "+
		"%d/TCP is that of a NodeWorkload of another namespace, until it is changed or deleted", port))
	if nw.Status.Summary != "NodePorts" || nw.Status.Phase != corev1.PodPending || len(nw.Status.ContainerStatuses) != 0 {
		t.Errorf("status %+v, want nothing of it started", nw.Status)
	}
	first.DeleteAndCollect()
	second.AwaitReady()
}

// A full name that the kernel has no room for is refused in the words of the kubelet's event, and
// what runs stays.
func TestFullNameThatIsTooLong(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, fmt.Sprintf(`
hostname: %s
subdomain: s
containers: [{name: c, image: %s, args: [serve]}]`, strings.Repeat("h", 60), testImage))
	before := w.AwaitReady().Status.ContainerStatuses[0].ContainerID
	w.Change(func(template *corev1.PodTemplateSpec) { template.Spec.SetHostnameAsFQDN = new(true) })
	name := strings.Repeat("h", 60) + ".s." + w.Namespace + ".svc.mw.test"
	nw := awaitRefused(t, w, "FailedCreatePodSandBox", fmt.Sprintf("Failed to create pod sandbox: failed to construct FQDN from pod hostname and cluster domain, "+
		"FQDN %s is too long (64 characters is the max, %d characters requested)", name, len(name)))
	if now := nw.Status.ContainerStatuses[0]; now.ContainerID != before || now.State.Running == nil {
		t.Errorf("%s ran, now %+v", before, now)
	}
}

// Sysctls that the kubelet calls unsafe need the shim's leave. A change to one is refused, and
// what runs stays.
func TestUnsafeSysctl(t *testing.T) {
	t.Parallel()
	const refused = `forbidden sysctl: "net.ipv4.tcp_tw_reuse" not allowlisted`
	command := []string{"cat /proc/sys/net/core/somaxconn"}
	w := env.Apply(t, fmt.Sprintf(`
securityContext: {sysctls: [{name: net.core.somaxconn, value: "321"}]}
containers: [{name: c, image: %s, args: %s}]`, testImage, show(command...)))
	before := w.AwaitReady().Status.ContainerStatuses[0].ContainerID
	expect(t, shown(t, w, "c", command...), map[string]string{command[0]: "321"})
	w.Change(func(template *corev1.PodTemplateSpec) {
		template.Spec.SecurityContext.Sysctls = []corev1.Sysctl{{Name: "net.ipv4.tcp_tw_reuse", Value: "1"}}
	})
	nw := awaitRefused(t, w, "SysctlForbidden", refused)
	if now := nw.Status.ContainerStatuses[0]; now.ContainerID != before || now.State.Running == nil {
		t.Errorf("%s ran, now %+v", before, now)
	}
	other := env.Apply(t, fmt.Sprintf(`
securityContext: {sysctls: [{name: net.ipv4.tcp_tw_reuse, value: "1"}]}
containers: [{name: c, image: %s, args: [serve]}]`, testImage))
	awaitRefused(t, other, "SysctlForbidden", refused)
}
