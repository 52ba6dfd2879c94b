// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package poddir

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// maxHostname is what fits into the kernel's 64 bytes.
const maxHostname = 63

// Hostname is the host name of the pod: spec.hostname or else the pod's name, cut
// to 63 characters; with setHostnameAsFQDN and a subdomain the full name, which is
// not cut. (kubelet_pods.go:GeneratePodHostNameAndDomain, util.go:GetNodenameForKernel)
func (m *Manager) Hostname(pod *corev1.Pod) string {
	host, domain := m.hostnameAndDomain(pod)
	if asFQDN := pod.Spec.SetHostnameAsFQDN; asFQDN != nil && *asFQDN && domain != "" {
		return host + "." + domain
	}
	return host
}

func (m *Manager) hostnameAndDomain(pod *corev1.Pod) (host, domain string) {
	if override := pod.Spec.HostnameOverride; override != nil {
		return truncateHostname(*override), ""
	}
	host = pod.Name
	if pod.Spec.Hostname != "" {
		host = pod.Spec.Hostname
	}
	if pod.Spec.Subdomain != "" {
		domain = pod.Spec.Subdomain + "." + pod.Namespace + ".svc." + m.config.ClusterDomain
	}
	return truncateHostname(host), domain
}

func truncateHostname(host string) string {
	if len(host) <= maxHostname {
		return host
	}
	return strings.TrimRight(host[:maxHostname], "-.")
}
