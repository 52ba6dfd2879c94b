// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"fmt"
	"net/netip"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/node/util/sysctl"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
	"github.com/managedworkload/managedworkload/runtime/runtimeerror"
)

// logDirMode is that of the kubelet's log directories.
const logDirMode = 0o755

// RunSandbox creates and starts a sandbox and returns its ID.
// (kubelet kuberuntime_sandbox.go:createPodSandbox)
func (c *Client) RunSandbox(ctx context.Context, pod *corev1.Pod, attempt uint32) (string, error) {
	users, err := c.userNamespace(ctx, pod)
	if err != nil {
		return "", err
	}
	config, err := c.sandboxConfig(pod, attempt, users)
	if err != nil {
		return "", err
	}
	handler, err := runtimeHandler(pod)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(config.LogDirectory, logDirMode); err != nil {
		return "", fmt.Errorf("create the log directory of the pod: %w", err)
	}
	response, err := invoke(ctx, 2*c.callTimeout, "run sandbox", c.runtime.RunPodSandbox,
		&runtimeapi.RunPodSandboxRequest{Config: config, RuntimeHandler: handler})
	if err != nil {
		return "", err
	}
	if response.GetPodSandboxId() == "" {
		return "", badAnswer("run sandbox", "the runtime gave no ID")
	}
	return response.GetPodSandboxId(), nil
}

// RuntimeHandler is the handler of a pod's runtime class, "" for the runtime's default.
func (c *Client) RuntimeHandler(pod *corev1.Pod) (string, error) { return runtimeHandler(pod) }

// runtimeHandler is the handler of a pod's runtime class, "" for the runtime's default: the
// manager writes it beside the class's name. (kubelet runtimeclass_manager.go)
func runtimeHandler(pod *corev1.Pod) (string, error) {
	class := pod.Spec.RuntimeClassName
	if class == nil || *class == "" {
		return "", nil
	}
	handler, known := pod.Annotations[v1alpha1.AnnotationRuntimeHandler]
	if !known {
		return "", fmt.Errorf("the manager has given no handler for RuntimeClass %q", *class)
	}
	return handler, nil
}

// StopSandbox stops a sandbox and kills whatever runs in it; one that is gone is
// no error.
func (c *Client) StopSandbox(ctx context.Context, id string) error {
	_, err := invoke(ctx, c.callTimeout, quote("stop sandbox", id), c.runtime.StopPodSandbox,
		&runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
	return ignoreNotFound(err)
}

// RemoveSandbox removes a sandbox with all that is in it; one that is gone is no
// error.
func (c *Client) RemoveSandbox(ctx context.Context, id string) error {
	_, err := invoke(ctx, c.callTimeout, quote("remove sandbox", id), c.runtime.RemovePodSandbox,
		&runtimeapi.RemovePodSandboxRequest{PodSandboxId: id})
	return ignoreNotFound(err)
}

func ignoreNotFound(err error) error {
	if runtimeerror.IsNotFound(err) {
		return nil
	}
	return err
}

// sandboxConfig describes the sandbox of a pod. (kubelet
// kuberuntime_sandbox.go:generatePodSandboxConfig)
func (c *Client) sandboxConfig(pod *corev1.Pod, attempt uint32, users *runtimeapi.UserNamespace) (*runtimeapi.PodSandboxConfig, error) {
	annotations, err := sandboxAnnotations(pod)
	if err != nil {
		return nil, err
	}
	linux, err := c.sandboxLinux(pod, users)
	if err != nil {
		return nil, err
	}
	dns, err := c.config.PodDir.DNS(pod)
	if err != nil {
		return nil, fmt.Errorf("resolver configuration: %w", err)
	}
	config := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{
			Name: pod.Name, Namespace: pod.Namespace, Uid: string(pod.UID), Attempt: attempt,
		},
		LogDirectory: c.config.PodDir.LogDirectory(pod),
		DnsConfig:    &runtimeapi.DNSConfig{Servers: dns.Servers, Searches: dns.Searches, Options: dns.Options},
		PortMappings: portMappings(pod, c.config.Differences),
		Labels:       c.sandboxLabels(pod),
		Annotations:  annotations,
		Linux:        linux,
	}
	if !pod.Spec.HostNetwork {
		if config.Hostname, err = c.config.PodDir.Hostname(pod); err != nil {
			return nil, err
		}
	}
	return config, nil
}

// sandboxLinux is the Linux part of a sandbox. (kubelet
// kuberuntime_sandbox.go:generatePodSandboxLinuxConfig)
func (c *Client) sandboxLinux(pod *corev1.Pod, users *runtimeapi.UserNamespace) (*runtimeapi.LinuxPodSandboxConfig, error) {
	security := &runtimeapi.LinuxSandboxSecurityContext{
		NamespaceOptions: namespaceOptions(pod, users),
		Privileged:       podspec.HasPrivileged(pod),
		// The least privileged profile does for the pause process of every pod.
		Seccomp: &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault},
	}
	sysctls := map[string]string{}
	if sc := pod.Spec.SecurityContext; sc != nil {
		for _, s := range sc.Sysctls {
			sysctls[sysctl.NormalizeName(s.Name)] = s.Value
		}
		security.RunAsUser = int64Value(sc.RunAsUser)
		security.RunAsGroup = int64Value(sc.RunAsGroup)
		security.SelinuxOptions = selinuxOptions(sc.SELinuxOptions)
		security.SupplementalGroups = supplementalGroups(sc)
		policy, err := groupsPolicy(sc)
		if err != nil {
			return nil, err
		}
		security.SupplementalGroupsPolicy = policy
	}
	return &runtimeapi.LinuxPodSandboxConfig{
		CgroupParent:    c.config.PodDir.CgroupParent(pod),
		SecurityContext: security,
		Sysctls:         sysctls,
		Resources:       c.node.sandboxResources(pod),
		Overhead:        c.node.overhead(pod),
	}, nil
}

// namespaceOptions of a pod's sandbox and containers. (kubelet
// kuberuntime/util/util.go:NamespacesForPod)
func namespaceOptions(pod *corev1.Pod, users *runtimeapi.UserNamespace) *runtimeapi.NamespaceOption {
	options := &runtimeapi.NamespaceOption{
		Network:       runtimeapi.NamespaceMode_POD,
		Ipc:           runtimeapi.NamespaceMode_POD,
		Pid:           runtimeapi.NamespaceMode_CONTAINER,
		UsernsOptions: users,
	}
	if pod.Spec.HostNetwork {
		options.Network = runtimeapi.NamespaceMode_NODE
	}
	if pod.Spec.HostIPC {
		options.Ipc = runtimeapi.NamespaceMode_NODE
	}
	switch shared := pod.Spec.ShareProcessNamespace; {
	case pod.Spec.HostPID:
		options.Pid = runtimeapi.NamespaceMode_NODE
	case shared != nil && *shared:
		options.Pid = runtimeapi.NamespaceMode_POD
	}
	return options
}

// portMappings of the main containers and, unlike the kubelet's, of sidecars: a
// sidecar's host port would be dropped without a word. (kubelet
// container/helpers.go:MakePortMappings)
func portMappings(pod *corev1.Pod, d plan.Differences) []*runtimeapi.PortMapping {
	var mappings []*runtimeapi.PortMapping
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; podspec.IsSidecar(c) && d.MapSidecarPorts {
			mappings = append(mappings, containerPortMappings(c)...)
		}
	}
	for i := range pod.Spec.Containers {
		mappings = append(mappings, containerPortMappings(&pod.Spec.Containers[i])...)
	}
	return mappings
}

// containerPortMappings leaves out what is there twice, under a name or, without
// one, with the same address family, protocol, address and ports.
func containerPortMappings(c *corev1.Container) []*runtimeapi.PortMapping {
	var mappings []*runtimeapi.PortMapping
	seen := map[string]bool{}
	for _, p := range c.Ports {
		name := p.Name
		if name == "" {
			name = fmt.Sprintf("%s-%s-%s:%d:%d", addressFamily(p.HostIP), p.Protocol, p.HostIP, p.ContainerPort, p.HostPort)
		}
		if seen[name] {
			continue
		}
		seen[name] = true
		mappings = append(mappings, &runtimeapi.PortMapping{
			HostIp: p.HostIP, HostPort: p.HostPort, ContainerPort: p.ContainerPort, Protocol: protocol(p.Protocol),
		})
	}
	return mappings
}

func addressFamily(ip string) string {
	address, err := netip.ParseAddr(ip)
	switch {
	case ip == "":
		return "any"
	case err == nil && address.Is6():
		return "v6"
	default:
		return "v4"
	}
}

func protocol(p corev1.Protocol) runtimeapi.Protocol {
	switch p {
	case corev1.ProtocolUDP:
		return runtimeapi.Protocol_UDP
	case corev1.ProtocolSCTP:
		return runtimeapi.Protocol_SCTP
	case corev1.ProtocolTCP:
	}
	return runtimeapi.Protocol_TCP
}
