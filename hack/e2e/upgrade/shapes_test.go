// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
)

// shape is a workload as it stands when the upgrade comes.
type shape struct {
	name     string
	template string
	backoff  *v1alpha1.RestartBackoff
	// change is made to the template once settled, before the upgrade.
	change func(*corev1.PodTemplateSpec)
	// settled reports that the workload is as it is to be at the upgrade.
	settled func(*v1alpha1.NodeWorkload) bool
	// reason is that of its condition Ready, AllNodesReady if empty.
	reason string
	// ended reports that the workload has run to its end: a change of the template
	// would start another.
	ended bool
}

func ready(nw *v1alpha1.NodeWorkload) bool {
	want, _, _ := strings.Cut(nw.Status.Ready, "/")
	return want != "" && want != "0" && nw.Status.Ready == want+"/"+want && nw.Status.ObservedGeneration == nw.Generation
}

func waiting(reason string) func(*v1alpha1.NodeWorkload) bool {
	return func(nw *v1alpha1.NodeWorkload) bool {
		for _, c := range nw.Status.ContainerStatuses {
			if c.State.Waiting != nil && c.State.Waiting.Reason == reason {
				return true
			}
		}
		return false
	}
}

func status(nw *v1alpha1.NodeWorkload, name string) corev1.ContainerStatus {
	for _, c := range nw.Status.ContainerStatuses {
		if c.Name == name {
			return c
		}
	}
	return corev1.ContainerStatus{}
}

func phase(phase corev1.PodPhase) func(*v1alpha1.NodeWorkload) bool {
	return func(nw *v1alpha1.NodeWorkload) bool { return nw.Status.Phase == phase }
}

// shapes are what an upgrade must leave alone. Every container that serves writes
// its starts and signals into $DIR.
func shapes() []shape {
	return []shape{
		{name: "sidecars", settled: ready, template: `
terminationGracePeriodSeconds: 20
initContainers:
- {name: init, image: managedworkload.dev/testprogram:v1, args: [write, /disk/file, text], volumeMounts: [{name: disk, mountPath: /disk}]}
- name: first
  image: managedworkload.dev/testprogram:v1
  restartPolicy: Always
  args: [serve, --log-file=/dir/first, "--http=:8081"]
  startupProbe: {httpGet: {path: /startupz, port: 8081}, periodSeconds: 1}
  volumeMounts: [{name: dir, mountPath: /dir}]
- {name: second, image: managedworkload.dev/testprogram:v1, restartPolicy: Always, args: [serve, --log-file=/dir/second], volumeMounts: [{name: dir, mountPath: /dir}]}
containers:
- name: main
  image: managedworkload.dev/testprogram:v1
  args: [serve, --log-file=/dir/main, "--http=:8080", "--tcp=:8082", "--grpc=:8083"]
  ports: [{name: http, containerPort: 8080}]
  startupProbe: {tcpSocket: {port: 8082}, periodSeconds: 1}
  livenessProbe: {grpc: {port: 8083}, periodSeconds: 1}
  readinessProbe: {httpGet: {path: /readyz, port: http}, periodSeconds: 1}
  lifecycle:
    postStart: {exec: {command: [/testprogram, append, /dir/main, postStart]}}
    preStop: {exec: {command: [/testprogram, append, /dir/main, preStop]}}
  volumeMounts: [{name: dir, mountPath: /dir}, {name: disk, mountPath: /disk}]
volumes: [{name: dir, hostPath: {path: $DIR}}, {name: disk, emptyDir: {}}]`},

		{name: "volumes", settled: ready, template: `
securityContext: {fsGroup: 2345, supplementalGroups: [4000]}
containers:
- name: main
  image: managedworkload.dev/testprogram:v1
  env: [{name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]
  args: [serve, --log-file=/dir/main]
  readinessProbe: {exec: {command: [/testprogram, check-file, /part]}, periodSeconds: 1}
  terminationMessagePolicy: FallbackToLogsOnError
  volumeMounts:
  - {name: dir, mountPath: /dir}
  - {name: disk, mountPath: /part, subPath: a/b}
  - {name: disk, mountPath: /node, subPathExpr: $(NODE)}
  - {name: memory, mountPath: /memory}
  - {name: made, mountPath: /made, readOnly: true}
volumes:
- {name: dir, hostPath: {path: $DIR, type: Directory}}
- {name: made, hostPath: {path: $DIR/made, type: DirectoryOrCreate}}
- {name: disk, emptyDir: {}}
- {name: memory, emptyDir: {medium: Memory, sizeLimit: 1Mi}}`},

		{name: "host", reason: v1alpha1.ReasonNodesNotReady, template: `
hostNetwork: true
hostPID: true
restartPolicy: OnFailure
activeDeadlineSeconds: 3600
securityContext: {runAsUser: 1000, seccompProfile: {type: RuntimeDefault}}
containers:
- name: main
  image: managedworkload.dev/testprogram:v1
  args: [serve]
  workingDir: /
  lifecycle: {stopSignal: SIGINT, preStop: {sleep: {seconds: 1}}}
  securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
- {name: done, image: managedworkload.dev/testprogram:v1, args: [exit, "0"]}`,
			settled: func(nw *v1alpha1.NodeWorkload) bool {
				done, main := status(nw, "done"), status(nw, "main")
				return done.State.Terminated != nil && main.Ready
			}},

		{name: "resized", settled: ready, template: `
containers:
- name: main
  image: managedworkload.dev/testprogram:v1
  args: [serve, --log-file=/dir/main]
  resources: {requests: {cpu: 20m, memory: 32Mi}, limits: {cpu: 200m, memory: 64Mi}}
  volumeMounts: [{name: dir, mountPath: /dir}]
volumes: [{name: dir, hostPath: {path: $DIR}}]`,
			change: func(template *corev1.PodTemplateSpec) {
				resources := &template.Spec.Containers[0].Resources
				resources.Requests[corev1.ResourceCPU] = resources.Limits[corev1.ResourceCPU]
			}},

		{name: "redefined", settled: ready, template: `
terminationGracePeriodSeconds: 5
containers:
- {name: main, image: managedworkload.dev/testprogram:v1, args: [serve, --log-file=/dir/main], volumeMounts: [{name: dir, mountPath: /dir}]}
- {name: other, image: managedworkload.dev/testprogram:v1, args: [serve, --log-file=/dir/other], volumeMounts: [{name: dir, mountPath: /dir}]}
volumes: [{name: dir, hostPath: {path: $DIR}}]`,
			change: func(template *corev1.PodTemplateSpec) {
				template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "CHANGE", Value: "one"}}
			}},

		// What it has been killed for before is not to be counted again. A probe that is slow on a busy machine kills
		// nothing more: its timeout is long.
		{name: "killed-before", template: `
terminationGracePeriodSeconds: 5
containers:
- name: main
  image: managedworkload.dev/testprogram:v1
  args: [serve, --count-file=/dir/count, --log-file=/dir/main]
  livenessProbe: {exec: {command: [/testprogram, check-file, /dir/alive]}, periodSeconds: 1, timeoutSeconds: 30, failureThreshold: 1}
  lifecycle: {preStop: {exec: {command: [/testprogram, touch, /dir/alive]}}}
  volumeMounts: [{name: dir, mountPath: /dir}]
volumes: [{name: dir, hostPath: {path: $DIR}}]`,
			settled: func(nw *v1alpha1.NodeWorkload) bool {
				return ready(nw) && nw.Status.Restarts == 1 && nw.Status.KillCount == 1
			}},

		{name: "back-off", reason: v1alpha1.ReasonNodesNotReady, settled: waiting("CrashLoopBackOff"), backoff: &v1alpha1.RestartBackoff{
			BaseSeconds: ptr.To[int32](300), MaxSeconds: ptr.To[int32](300),
		}, template: `
containers:
- {name: main, image: managedworkload.dev/testprogram:v1, args: [exit, "3"]}
- {name: steady, image: managedworkload.dev/testprogram:v1, args: [serve]}`},

		{name: "no-image", reason: v1alpha1.ReasonNodesNotReady, settled: func(nw *v1alpha1.NodeWorkload) bool {
			return waiting("ErrImageNeverPull")(nw) && nw.Status.Ready == "1/2"
		}, template: `
containers:
- {name: main, image: "managedworkload.dev/nowhere:v1", imagePullPolicy: Never}
- {name: steady, image: managedworkload.dev/testprogram:v1, args: [serve]}`},

		{name: "starting", reason: v1alpha1.ReasonNodesNotReady, template: `
containers:
- name: main
  image: managedworkload.dev/testprogram:v1
  args: [serve, --log-file=/dir/main]
  startupProbe: {exec: {command: [/testprogram, check-file, /dir/started]}, periodSeconds: 1, timeoutSeconds: 30, failureThreshold: 1000}
  livenessProbe: {exec: {command: [/testprogram, check-file, /dir/started]}, periodSeconds: 1, timeoutSeconds: 30, failureThreshold: 1}
  volumeMounts: [{name: dir, mountPath: /dir}]
volumes: [{name: dir, hostPath: {path: $DIR}}]`,
			settled: func(nw *v1alpha1.NodeWorkload) bool {
				return status(nw, "main").State.Running != nil
			}},

		{name: "rules", settled: ready, template: `
restartPolicy: Never
initContainers:
- {name: init, image: managedworkload.dev/testprogram:v1, args: [exit, "0"]}
containers:
- name: main
  image: managedworkload.dev/testprogram:v1
  args: [serve, --log-file=/dir/main]
  restartPolicy: Never
  restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [42]}}]
  volumeMounts: [{name: dir, mountPath: /dir}]
volumes: [{name: dir, hostPath: {path: $DIR}}]`},

		{name: "succeeded", reason: v1alpha1.ReasonCompleted, settled: phase(corev1.PodSucceeded), ended: true, template: `
restartPolicy: Never
containers: [{name: main, image: managedworkload.dev/testprogram:v1, args: [exit, "0"]}]`},

		{name: "failed", reason: v1alpha1.ReasonFailed, settled: phase(corev1.PodFailed), ended: true, template: `
restartPolicy: Never
containers: [{name: main, image: managedworkload.dev/testprogram:v1, args: [exit, "7"]}]`},
	}
}

// settle waits until the shape is as it is to be at the upgrade.
func (s shape) settle(w *harness.Workload) {
	w.Await(s.name+" is settled", s.settled)
	if s.change == nil {
		return
	}
	w.Change(s.change)
	generation := w.Get().Generation
	w.AwaitObject(s.name+" is settled after its change", func(mw *v1alpha1.ManagedWorkload) bool {
		return mw.Status.ObservedGeneration == generation && mw.Status.ReadyNodes == 1 && mw.Status.UpdatedNodes == 1
	})
}
