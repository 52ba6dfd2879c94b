// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package badinput

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/template"
)

// rich leaves out whatever has a default.
const rich = `
securityContext: {fsGroup: 1}
initContainers:
- {name: init, image: example.test/init}
- {name: side, image: "example.test/side:latest", restartPolicy: Always, startupProbe: {grpc: {port: 1}}}
containers:
- name: main
  image: example.test/main:v1
  ports: [{containerPort: 80}, {containerPort: 81, hostPort: 8081, protocol: UDP}]
  env:
  - {name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
  - {name: B, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}
  resources: {limits: {cpu: "1.0000001", memory: 1Gi}, requests: {cpu: 100m}}
  livenessProbe: {httpGet: {port: 80}}
  readinessProbe: {tcpSocket: {port: web}, periodSeconds: 3}
  startupProbe: {exec: {command: [x]}, failureThreshold: 7}
  lifecycle: {preStop: {httpGet: {port: 80}}, postStart: {httpGet: {port: 80, path: /x, scheme: HTTPS}}}
  securityContext: {capabilities: {drop: [ALL]}}
  volumeMounts: [{name: host, mountPath: /host}, {name: empty, mountPath: /empty, readOnly: true}]
- {name: digest, image: "example.test/digest@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", resources: {limits: {memory: 1.5Mi}}}
tolerations: [{operator: Exists}]
topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]
volumes:
- {name: host, hostPath: {path: /x}}
- {name: empty, emptyDir: {}}
`

// The defaults that are pinned are those the API server gives a Pod.
func TestDefaultsAreThoseOfAPod(t *testing.T) {
	t.Parallel()
	w := env.New(t)
	tests := map[string]string{
		"rich":         rich,
		"minimal":      "containers: [{name: c, image: x}]",
		"host network": "hostNetwork: true\ncontainers: [{name: c, image: x, ports: [{containerPort: 80}]}]",
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			parsed := w.Parse(text)
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "pod"}, Spec: *parsed.Spec.DeepCopy()}
			if err := env.Kube.Create(t.Context(), pod, client.DryRunAll); err != nil {
				t.Fatal(err)
			}
			ours := parsed.DeepCopy()
			template.SetDefaults(ours)
			want := pod.Spec
			// Admission, not defaulting: priority, and tolerations of a Pod's node.
			want.Priority, want.PreemptionPolicy = nil, nil
			want.Tolerations = parsed.Spec.Tolerations
			ours.Spec.Priority, ours.Spec.PreemptionPolicy = nil, nil
			// A Pod's own: nothing reads it here.
			if ours.Spec.EnableServiceLinks == nil {
				want.EnableServiceLinks = nil
			}
			if diff := cmp.Diff(want, ours.Spec, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("defaults (-API server +ours):\n%s", diff)
			}
		})
	}
}

// What the manager writes into a NodeWorkload has them; the ManagedWorkload is
// left as it was written.
func TestDefaultsArePinned(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, "containers: [{name: c, image: "+testImage+"}]")
	nw := w.AwaitReady()
	spec := nw.Spec.Template.Spec
	if spec.TerminationGracePeriodSeconds == nil || *spec.TerminationGracePeriodSeconds != 30 || spec.RestartPolicy != corev1.RestartPolicyAlways || spec.DNSPolicy != corev1.DNSClusterFirst {
		t.Errorf("the NodeWorkload's template is not defaulted: %+v", spec)
	}
	want := corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: testImage}}}
	if diff := cmp.Diff(want, w.Get().Spec.Template.Spec, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the ManagedWorkload was changed (-want +got):\n%s", diff)
	}
}
