// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// plainSandbox is the configuration of newPod's sandbox.
func plainSandbox(client *Client, pod *corev1.Pod) *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: "uid-1", Attempt: 3},
		Hostname:     "web",
		LogDirectory: client.config.PodDir.LogDirectory(pod),
		DnsConfig: &runtimeapi.DNSConfig{
			Servers: []string{"10.96.0.10"}, Searches: []string{"svc.cluster.local"}, Options: []string{"ndots:5"},
		},
		Labels: map[string]string{
			"app": "web", "io.kubernetes.pod.name": "web", "io.kubernetes.pod.namespace": "default", "io.kubernetes.pod.uid": "uid-1",
			"managedworkload.dev/managed-by": "shim", "managedworkload.dev/instance": "node-1", "managedworkload.dev/cluster": "cluster-1",
		},
		Annotations: map[string]string{
			"kubectl.kubernetes.io/restartedAt": "noon",
			"managedworkload.dev/pod-hash":      plan.HashPod(pod),
			"managedworkload.dev/record":        `{"restartPolicy":"Always","grace":30}`,
		},
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent: "/managedworkload/uid-1",
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
				NamespaceOptions: &runtimeapi.NamespaceOption{
					Pid: runtimeapi.NamespaceMode_CONTAINER, UsernsOptions: &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_NODE},
				},
				Seccomp: &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault},
			},
			Resources: &runtimeapi.LinuxContainerResources{CpuShares: 2, CpuPeriod: 100000},
			Overhead:  &runtimeapi.LinuxContainerResources{},
		},
	}
}

func TestRunSandboxConfig(t *testing.T) {
	tests := map[string]struct {
		pod     func(*corev1.Pod)
		want    func(*runtimeapi.PodSandboxConfig)
		handler string
	}{
		"plain": {pod: func(*corev1.Pod) {}, want: func(*runtimeapi.PodSandboxConfig) {}},
		"our labels win over the template's": {
			pod: func(p *corev1.Pod) {
				p.Labels = map[string]string{LabelManagedBy: "me", labelPodUID: "another", LabelInstance: "elsewhere"}
			},
			want: func(c *runtimeapi.PodSandboxConfig) { delete(c.Labels, "app") },
		},
		"host namespaces": {
			pod: func(p *corev1.Pod) { p.Spec.HostNetwork, p.Spec.HostPID, p.Spec.HostIPC = true, true, true },
			want: func(c *runtimeapi.PodSandboxConfig) {
				c.Hostname = ""
				o := c.Linux.SecurityContext.NamespaceOptions
				o.Network, o.Pid, o.Ipc = runtimeapi.NamespaceMode_NODE, runtimeapi.NamespaceMode_NODE, runtimeapi.NamespaceMode_NODE
				c.Annotations[AnnotationRecord] = `{"restartPolicy":"Always","grace":30,"hostNetwork":true}`
			},
		},
		"a runtime class with overhead": {
			pod: func(p *corev1.Pod) {
				p.Spec.RuntimeClassName = new("gvisor")
				p.Spec.Overhead = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("64Mi")}
				p.Annotations[v1alpha1.AnnotationRuntimeHandler] = "runsc"
			},
			handler: "runsc",
			want: func(c *runtimeapi.PodSandboxConfig) {
				c.Annotations[v1alpha1.AnnotationRuntimeHandler] = "runsc"
				c.Linux.Overhead = &runtimeapi.LinuxContainerResources{CpuShares: 256, CpuPeriod: 100000, CpuQuota: 25000, MemoryLimitInBytes: 64 << 20}
			},
		},
		"a handler without a class is not asked for": {
			pod:  func(p *corev1.Pod) { p.Annotations[v1alpha1.AnnotationRuntimeHandler] = "runsc" },
			want: func(c *runtimeapi.PodSandboxConfig) { c.Annotations[v1alpha1.AnnotationRuntimeHandler] = "runsc" },
		},
		"shared process namespace": {
			pod: func(p *corev1.Pod) { p.Spec.ShareProcessNamespace = new(true) },
			want: func(c *runtimeapi.PodSandboxConfig) {
				c.Linux.SecurityContext.NamespaceOptions.Pid = runtimeapi.NamespaceMode_POD
			},
		},
		"ports": {
			pod: func(p *corev1.Pod) {
				p.Spec.InitContainers = []corev1.Container{
					{Name: "init", Ports: []corev1.ContainerPort{{ContainerPort: 1, HostPort: 1}}},
					{Name: "side", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways), Ports: []corev1.ContainerPort{
						{ContainerPort: 2, HostPort: 20002, Protocol: corev1.ProtocolUDP},
					}},
				}
				p.Spec.Containers[0].Ports = []corev1.ContainerPort{
					{ContainerPort: 80, HostPort: 8080, HostIP: "127.0.0.1", Protocol: corev1.ProtocolTCP},
					{ContainerPort: 80, HostPort: 8080, HostIP: "::1", Protocol: corev1.ProtocolTCP},
					{ContainerPort: 80, HostPort: 8080, HostIP: "127.0.0.1", Protocol: corev1.ProtocolTCP},
					{Name: "sctp", ContainerPort: 81, Protocol: corev1.ProtocolSCTP},
				}
			},
			want: func(c *runtimeapi.PodSandboxConfig) {
				c.PortMappings = []*runtimeapi.PortMapping{
					{ContainerPort: 2, HostPort: 20002, Protocol: runtimeapi.Protocol_UDP},
					{ContainerPort: 80, HostPort: 8080, HostIp: "127.0.0.1"},
					{ContainerPort: 80, HostPort: 8080, HostIp: "::1"},
					{ContainerPort: 81, Protocol: runtimeapi.Protocol_SCTP},
				}
			},
		},
		"security": {
			pod: func(p *corev1.Pod) {
				p.Spec.SecurityContext = &corev1.PodSecurityContext{
					RunAsUser: ptr.To[int64](1000), RunAsGroup: ptr.To[int64](1001), FSGroup: ptr.To[int64](1002),
					SupplementalGroups: []int64{1003}, SupplementalGroupsPolicy: ptr.To(corev1.SupplementalGroupsPolicyStrict),
					Sysctls:        []corev1.Sysctl{{Name: "net.ipv4.ip_unprivileged_port_start", Value: "0"}, {Name: "net/ipv4/conf/eth0.1/forwarding", Value: "1"}},
					SELinuxOptions: &corev1.SELinuxOptions{User: "u", Role: "r", Type: "t", Level: "l"},
					SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined},
				}
				p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
			},
			want: func(c *runtimeapi.PodSandboxConfig) {
				s := c.Linux.SecurityContext
				s.RunAsUser, s.RunAsGroup = &runtimeapi.Int64Value{Value: 1000}, &runtimeapi.Int64Value{Value: 1001}
				s.SupplementalGroups, s.SupplementalGroupsPolicy = []int64{1002, 1003}, runtimeapi.SupplementalGroupsPolicy_Strict
				s.SelinuxOptions = &runtimeapi.SELinuxOption{User: "u", Role: "r", Type: "t", Level: "l"}
				s.Privileged = true
				c.Linux.Sysctls = map[string]string{"net.ipv4.ip_unprivileged_port_start": "0", "net.ipv4.conf.eth0/1.forwarding": "1"}
			},
		},
		"resources are the sum": {
			pod: func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources = corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")},
					Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("64Mi")},
				}
				p.Spec.Containers = append(p.Spec.Containers, *p.Spec.Containers[0].DeepCopy())
			},
			want: func(c *runtimeapi.PodSandboxConfig) {
				c.Linux.Resources = &runtimeapi.LinuxContainerResources{
					CpuShares: 512, CpuPeriod: 100000, CpuQuota: 200000, MemoryLimitInBytes: 128 << 20,
				}
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			fake, client := newFake(t)
			pod := newPod()
			tc.pod(pod)
			want := plainSandbox(client, pod)
			tc.want(want)
			if _, err := client.RunSandbox(t.Context(), pod, 3); err != nil {
				t.Fatal(err)
			}
			got := request[runtimeapi.RunPodSandboxRequest](t, fake, "RunPodSandbox")
			if diff := cmp.Diff(want, got.GetConfig(), protocmp.Transform()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if got.GetRuntimeHandler() != tc.handler {
				t.Errorf("runtime handler %q, want %q", got.GetRuntimeHandler(), tc.handler)
			}
		})
	}
}

// A pod whose host name the kernel cannot take has no sandbox, and the error is the kubelet's.
func TestRunSandboxWithoutAHostname(t *testing.T) {
	tooLong := errors.New("failed to construct FQDN")
	fake, client := newFake(t, func(c *Config) { c.PodDir = &fakePodDir{logs: t.TempDir(), hostnameErr: tooLong} })
	pod := newPod()
	if id, err := client.RunSandbox(t.Context(), pod, 0); err == nil || err.Error() != tooLong.Error() {
		t.Errorf("sandbox %q, error %v", id, err)
	}
	if calls := fake.takeCalls(); len(calls) != 0 {
		t.Errorf("the runtime was called: %v", calls)
	}
	pod.Spec.HostNetwork = true
	if _, err := client.RunSandbox(t.Context(), pod, 0); err != nil {
		t.Errorf("on the node's network: %v", err)
	}
}

func TestRunSandboxRefuses(t *testing.T) {
	fake, client := newFake(t)
	for name, change := range map[string]func(*corev1.Pod){
		"no handler of its class": func(p *corev1.Pod) { p.Spec.RuntimeClassName = new("gvisor") },
		"unknown groups policy": func(p *corev1.Pod) {
			p.Spec.SecurityContext = &corev1.PodSecurityContext{SupplementalGroupsPolicy: ptr.To(corev1.SupplementalGroupsPolicy("Other"))}
		},
	} {
		pod := newPod()
		change(pod)
		if id, err := client.RunSandbox(t.Context(), pod, 0); err == nil {
			t.Errorf("%s: got sandbox %q", name, id)
		}
	}
	if calls := fake.takeCalls(); len(calls) != 0 {
		t.Errorf("the runtime was called: %v", calls)
	}
}
