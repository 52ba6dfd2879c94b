// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/managertest"
)

// fullTemplate has what a template may have; the test leaves out parts of it.
const fullTemplate = `
metadata: {labels: {a: b}, annotations: {c: d}}
spec:
  restartPolicy: OnFailure
  terminationGracePeriodSeconds: 5
  activeDeadlineSeconds: 50
  dnsPolicy: None
  dnsConfig: {nameservers: [10.0.0.1], searches: [x.y], options: [{name: ndots, value: "2"}]}
  hostNetwork: true
  hostPID: true
  hostIPC: true
  hostname: h
  subdomain: s
  setHostnameAsFQDN: true
  hostAliases: [{ip: 10.0.0.2, hostnames: [other]}]
  nodeSelector: {x: z}
  schedulerName: mine
  enableServiceLinks: false
  os: {name: linux}
  serviceAccountName: robot
  tolerations: [{key: k, operator: Exists}, {key: l, value: m, effect: NoExecute, tolerationSeconds: 5}]
  topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: k, operator: Exists}]}]}
  securityContext:
    runAsUser: 1000
    fsGroup: 5
    supplementalGroups: [3]
    supplementalGroupsPolicy: Strict
    seccompProfile: {type: RuntimeDefault}
  volumes:
  - {name: none}
  - {name: disk, emptyDir: {}}
  - {name: memory, emptyDir: {medium: Memory, sizeLimit: 1000Ki}}
  - {name: host, hostPath: {path: /tmp}}
  - {name: typed, hostPath: {path: /tmp, type: Directory}}
  initContainers:
  - name: init
    image: localhost:5000/init
    resources: {limits: {cpu: 100.5m}, requests: {memory: 1Mi}}
  - name: sidecar
    image: sidecar:latest
    restartPolicy: Always
    startupProbe: {exec: {command: ["true"]}}
    lifecycle: {postStart: {httpGet: {port: http}}, preStop: {sleep: {seconds: 1}}}
    ports: [{name: http, containerPort: 80}]
  containers:
  - name: app
    image: app@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
    command: [a]
    args: ["$(B)"]
    workingDir: /
    imagePullPolicy: Never
    terminationMessagePath: /dev/null
    terminationMessagePolicy: FallbackToLogsOnError
    stdin: true
    tty: true
    env:
    - {name: A}
    - {name: B, value: b}
    - {name: C, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    - {name: D, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: spec.nodeName}}}
    - {name: E, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}
    - {name: F, valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: 1Mi}}}
    ports:
    - {containerPort: 81}
    - {containerPort: 82, protocol: UDP, hostPort: 82, hostIP: 127.0.0.1}
    resources: {limits: {cpu: "1.0", memory: 0.5Gi}, requests: {cpu: 1e-1}}
    resizePolicy: [{resourceName: cpu, restartPolicy: RestartContainer}]
    volumeMounts:
    - {name: none, mountPath: /none}
    - {name: disk, mountPath: /disk, readOnly: true, subPath: x}
    - {name: memory, mountPath: /memory, mountPropagation: HostToContainer}
    livenessProbe: {httpGet: {port: 80}, terminationGracePeriodSeconds: 4}
    readinessProbe: {grpc: {port: 80}, periodSeconds: 1, timeoutSeconds: 2, successThreshold: 3, failureThreshold: 4, initialDelaySeconds: 5}
    startupProbe: {tcpSocket: {port: 81}}
    lifecycle: {preStop: {httpGet: {path: /stop, port: 81, scheme: HTTPS, httpHeaders: [{name: X, value: z}]}}}
    securityContext: {privileged: false, runAsNonRoot: true, capabilities: {add: [NET_ADMIN]}, procMount: Default}
  - name: other
    image: other:v1
    livenessProbe: {exec: {command: [x]}}
`

// What the API server fills into a Pod is what the manager fills into a
// NodeWorkload, and a NodeWorkload that was stored has the template that was sent:
// or else the manager would write it for ever.
func TestDefaultsAreThoseOfTheAPIServer(t *testing.T) {
	c := newCluster(t)
	judged := 0
	for seed := range uint64(400) {
		var tree map[string]any
		c.must(yaml.Unmarshal([]byte(fullTemplate), &tree))
		if seed > 0 {
			leaveOut(rand.New(rand.NewPCG(seed, 0)), tree)
		}
		text, err := yaml.Marshal(tree)
		c.must(err)
		sent := &corev1.PodTemplateSpec{}
		c.must(yaml.UnmarshalStrict(text, sent))
		if refused, _ := template.Check(sent, field.NewPath("template")); len(refused) > 0 {
			t.Fatalf("refused: %v", refused.ToAggregate())
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "x"}, Spec: *sent.Spec.DeepCopy()}
		if err := api.Create(t.Context(), pod, client.DryRunAll); seed > 0 && apierrors.IsInvalid(err) {
			continue // a part is gone that another needs
		} else if err != nil {
			t.Fatal(err)
		}
		judged++
		ours := sent.DeepCopy()
		template.SetDefaults(ours)
		theirs := sent.DeepCopy()
		theirs.Spec = withoutAdmission(pod, sent)
		if template.Hash(ours) != template.Hash(theirs) {
			t.Fatalf("seed %d (-the API server +ours):\n%s\nof\n%s", seed, cmp.Diff(managertest.Dump(theirs), managertest.Dump(ours)), text)
		}
		nw := &v1alpha1.NodeWorkload{
			ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "x"},
			Spec:       v1alpha1.NodeWorkloadSpec{NodeName: "nowhere", Template: *ours.DeepCopy()},
		}
		c.must(api.Create(t.Context(), nw, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict)))
		if template.Hash(ours) != template.Hash(&nw.Spec.Template) {
			t.Fatalf("seed %d (-sent +stored):\n%s", seed, cmp.Diff(managertest.Dump(ours), managertest.Dump(nw.Spec.Template)))
		}
	}
	if judged < 50 {
		t.Errorf("only %d templates were valid", judged)
	}
}

// leaveOut removes parts of a template at random.
func leaveOut(rnd *rand.Rand, tree map[string]any) {
	keys := make([]string, 0, len(tree))
	for k := range tree {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		if !slices.Contains(needed, k) && rnd.IntN(4) == 0 {
			delete(tree, k)
			continue
		}
		switch v := tree[k].(type) {
		case map[string]any:
			leaveOut(rnd, v)
		case []any:
			for _, e := range v {
				if m, ok := e.(map[string]any); ok {
					leaveOut(rnd, m)
				}
			}
		}
	}
}

// needed are fields without which a template would seldom be valid.
var needed = []string{
	"spec", "containers", "name", "image", "containerPort", "mountPath", "volumes", "port", "path", "fieldPath", "resource",
	"command", "nodeSelectorTerms", "key", "operator", "resourceName", "type", "ip", "maxSkew", "topologyKey", "whenUnsatisfiable",
	"seconds", "medium", "effect", "dnsConfig", "nameservers", "exec", "grpc", "tcpSocket", "httpGet", "sleep", "fieldRef", "resourceFieldRef", "successThreshold",
}

// withoutAdmission is the spec of a Pod without what admission plugins put in.
func withoutAdmission(pod *corev1.Pod, sent *corev1.PodTemplateSpec) corev1.PodSpec {
	spec := *pod.Spec.DeepCopy()
	spec.Priority, spec.PreemptionPolicy = sent.Spec.Priority, sent.Spec.PreemptionPolicy
	spec.DeprecatedServiceAccount = sent.Spec.DeprecatedServiceAccount // an alias
	spec.Tolerations = slices.DeleteFunc(spec.Tolerations, func(t corev1.Toleration) bool {
		return strings.HasPrefix(t.Key, "node.kubernetes.io/")
	})
	return spec
}
