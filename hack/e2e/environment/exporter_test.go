// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// nodeExporter is the template of the DaemonSet that kube-prometheus publishes,
// but for the images: the test program takes any arguments. A token is asked
// for where $TOKEN stands.
const nodeExporter = `
metadata:
  annotations:
    kubectl.kubernetes.io/default-container: node-exporter
  labels:
    app.kubernetes.io/component: exporter
    app.kubernetes.io/name: node-exporter
    app.kubernetes.io/part-of: kube-prometheus
    app.kubernetes.io/version: 1.9.1
spec:
  automountServiceAccountToken: $TOKEN
  containers:
  - command: [/testprogram, show-args]
    args:
    - --web.listen-address=127.0.0.1:9100
    - --path.sysfs=/host/sys
    - --path.rootfs=/host/root
    - --path.udev.data=/host/root/run/udev/data
    - --no-collector.wifi
    - --no-collector.hwmon
    - --no-collector.btrfs
    - --collector.filesystem.mount-points-exclude=^/(dev|proc|sys|run/k3s/containerd/.+|var/lib/docker/.+|var/lib/kubelet/pods/.+)($|/)
    - --collector.netclass.ignored-devices=^(veth.*|[a-f0-9]{15})$
    - --collector.netdev.device-exclude=^(veth.*|[a-f0-9]{15})$
    image: managedworkload.dev/testprogram:v1
    name: node-exporter
    resources:
      limits:
        cpu: 250m
        memory: 180Mi
      requests:
        cpu: 102m
        memory: 180Mi
    securityContext:
      allowPrivilegeEscalation: false
      capabilities:
        add:
        - SYS_TIME
        drop:
        - ALL
      readOnlyRootFilesystem: true
    volumeMounts:
    - mountPath: /host/sys
      mountPropagation: HostToContainer
      name: sys
      readOnly: true
    - mountPath: /host/root
      mountPropagation: HostToContainer
      name: root
      readOnly: true
  - command: [/testprogram, show-args]
    args:
    - --secure-listen-address=[$(IP)]:9100
    - --tls-cipher-suites=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
    - --upstream=http://127.0.0.1:9100/
    env:
    - name: IP
      valueFrom:
        fieldRef:
          fieldPath: status.podIP
    image: managedworkload.dev/testprogram:v1
    name: kube-rbac-proxy
    ports:
    - containerPort: 9100
      hostPort: 9100
      name: https
    resources:
      limits:
        cpu: 20m
        memory: 40Mi
      requests:
        cpu: 10m
        memory: 20Mi
    securityContext:
      allowPrivilegeEscalation: false
      capabilities:
        drop:
        - ALL
      readOnlyRootFilesystem: true
      runAsGroup: 65532
      runAsNonRoot: true
      runAsUser: 65532
      seccompProfile:
        type: RuntimeDefault
  hostNetwork: true
  hostPID: true
  nodeSelector:
    kubernetes.io/os: linux
  priorityClassName: system-cluster-critical
  securityContext:
    runAsGroup: 65534
    runAsNonRoot: true
    runAsUser: 65534
  serviceAccountName: node-exporter
  tolerations:
  - operator: Exists
  volumes:
  - hostPath:
      path: /sys
    name: sys
  - hostPath:
      path: /
    name: root
`

// A DaemonSet's template can be pasted in: the one reason why this one does not
// run is named at once, and without that it runs as it stands.
func TestNodeExporter(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, strings.Replace(nodeExporter, "$TOKEN", "true", 1))
	mw := w.AwaitObject("it is refused", func(mw *v1alpha1.ManagedWorkload) bool {
		return meta.IsStatusConditionFalse(mw.Status.Conditions, v1alpha1.ConditionAccepted)
	})
	accepted := meta.FindStatusCondition(mw.Status.Conditions, v1alpha1.ConditionAccepted)
	if !strings.HasPrefix(accepted.Message, "spec.template.spec.automountServiceAccountToken: Forbidden") || strings.Count(accepted.Message, "spec.template") != 1 {
		t.Errorf("refused for %q, want the token alone", accepted.Message)
	}

	w.Apply(strings.Replace(nodeExporter, "$TOKEN", "false", 1))
	nw := w.AwaitReady()
	if nw.Status.Ready != "2/2" || nw.Status.QOSClass != corev1.PodQOSBurstable {
		t.Errorf("%s ready, QoS class %s", nw.Status.Ready, nw.Status.QOSClass)
	}
	accepted = meta.FindStatusCondition(w.Get().Status.Conditions, v1alpha1.ConditionAccepted)
	contains(t, "what it does not get", accepted.Message, "the component objects is not installed")
	w.AwaitLog("kube-rbac-proxy", 0, "--secure-listen-address=["+nw.Status.HostIPs[0]+"]:9100\n")
	w.AwaitLog("node-exporter", 0, "--collector.netdev.device-exclude=^(veth.*|[a-f0-9]{15})$\n")
}
