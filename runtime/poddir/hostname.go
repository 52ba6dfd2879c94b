// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package poddir

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const (
	// maxHostname is what a name is cut to.
	maxHostname = 63
	// maxFQDN is what fits into the kernel's field.
	maxFQDN = 64
)

// Hostname returns the host name of the pod: spec.hostname or else the pod's name, cut
// to 63 characters; with setHostnameAsFQDN and a subdomain the full name, which is
// not cut: one that is too long for the kernel is an error in the kubelet's words.
// (kubelet_pods.go:GeneratePodHostNameAndDomain, util.go:GetNodenameForKernel)
func (m *Manager) Hostname(pod *corev1.Pod) (string, error) {
	host, domain := m.hostnameAndDomain(pod)
	if asFQDN := pod.Spec.SetHostnameAsFQDN; asFQDN == nil || !*asFQDN || domain == "" {
		return host, nil
	}
	fqdn := host + "." + domain
	if len(fqdn) > maxFQDN {
		return "", fmt.Errorf("failed to construct FQDN from pod hostname and cluster domain, "+
			"FQDN %s is too long (%d characters is the max, %d characters requested)", fqdn, maxFQDN, len(fqdn))
	}
	return fqdn, nil
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
