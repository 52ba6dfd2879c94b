// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package poddir

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const (
	etcHostsPath = "/etc/hosts"

	hostsHeader            = "# Kubernetes-managed hosts file.\n"
	hostsHeaderHostNetwork = "# Kubernetes-managed hosts file (host network).\n"
	hostsLocal             = "127.0.0.1\tlocalhost\n" +
		"::1\tlocalhost ip6-localhost ip6-loopback\n" +
		"fe00::0\tip6-localnet\n" +
		"fe00::0\tip6-mcastprefix\n" +
		"fe00::1\tip6-allnodes\n" +
		"fe00::2\tip6-allrouters\n"
)

// hostsMount writes the pod's hosts file and returns its mount; nil when the pod
// has no IP yet or the container mounts a file of its own there.
// (kubelet_pods.go:makeHostsMount)
func (m *Manager) hostsMount(pod *corev1.Pod, c *corev1.Container, podIPs []string) (*Mount, error) {
	if len(podIPs) == 0 && !pod.Spec.HostNetwork {
		return nil, nil
	}
	for i := range c.VolumeMounts {
		if c.VolumeMounts[i].MountPath == etcHostsPath {
			return nil, nil
		}
	}
	content, err := m.hostsContent(pod, podIPs)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(m.podDir(pod.UID), etcHostsFile)
	if err := rewrite(file, content, 0o644); err != nil {
		return nil, fmt.Errorf("write hosts file: %w", err)
	}
	return &Mount{ContainerPath: etcHostsPath, HostPath: file, Propagation: corev1.MountPropagationNone}, nil
}

func (m *Manager) hostsContent(pod *corev1.Pod, podIPs []string) ([]byte, error) {
	var out bytes.Buffer
	if pod.Spec.HostNetwork {
		node, err := m.config.HostRoot.ReadFile(etcHostsPath)
		if err != nil {
			return nil, fmt.Errorf("read the node's hosts file: %w", err)
		}
		out.WriteString(hostsHeaderHostNetwork)
		out.Write(node)
	} else {
		host, domain := m.hostnameAndDomain(pod)
		names := host
		if domain != "" {
			names = host + "." + domain + "\t" + host
		}
		out.WriteString(hostsHeader + hostsLocal)
		for _, ip := range podIPs {
			fmt.Fprintf(&out, "%s\t%s\n", ip, names)
		}
	}
	if len(pod.Spec.HostAliases) > 0 {
		out.WriteString("\n# Entries added by HostAliases.\n")
		for _, alias := range pod.Spec.HostAliases {
			fmt.Fprintf(&out, "%s\t%s\n", alias.IP, strings.Join(alias.Hostnames, "\t"))
		}
	}
	return out.Bytes(), nil
}

// rewrite replaces the content of a file in place: running containers have the
// file itself mounted. The mode is set whatever the umask is.
func rewrite(file string, content []byte, mode os.FileMode) error {
	if err := os.WriteFile(file, content, mode); err != nil {
		return err
	}
	return os.Chmod(file, mode)
}
