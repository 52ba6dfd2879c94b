// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package poddir

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/hostfs"
)

// The limits of a resolver configuration. (pkg/apis/core/validation)
const (
	maxNameservers  = 3
	maxSearches     = 32
	maxSearchLength = 2048
	maxDomainLength = 253
	maxResolvConf   = 10 << 20 // bytes read of the node's file
)

// DNSConfig is a pod's resolver configuration.
type DNSConfig struct {
	Servers, Searches, Options []string
	// Warnings are what the kubelet would make events of: a missing cluster DNS,
	// and limits that cut something off.
	Warnings []Warning
}

// Warning is something a person should know, with an event's reason.
type Warning struct {
	Reason, Message string
}

// DNS is the resolver configuration of a pod. Options keep their order; the
// kubelet's have none. (network/dns/dns.go:GetPodDNS)
func (m *Manager) DNS(pod *corev1.Pod) (DNSConfig, error) {
	config, err := m.baseDNS(pod)
	if err != nil {
		return DNSConfig{}, err
	}
	if extra := pod.Spec.DNSConfig; extra != nil {
		config.Servers = unique(append(config.Servers, extra.Nameservers...))
		config.Searches = unique(append(config.Searches, extra.Searches...))
		for _, option := range extra.Options {
			text := option.Name
			if option.Value != nil && *option.Value != "" {
				text += ":" + *option.Value
			}
			config.Options = setOption(config.Options, text)
		}
	}
	config.limit()
	return config, nil
}

func (m *Manager) baseDNS(pod *corev1.Pod) (DNSConfig, error) {
	if pod.Spec.DNSPolicy == corev1.DNSNone {
		return DNSConfig{}, nil
	}
	config, err := readResolvConf(m.config.HostRoot, m.config.ResolvConf)
	if err != nil {
		return DNSConfig{}, err
	}
	if wantsClusterDNS(pod) {
		if len(m.config.ClusterDNS) > 0 {
			config.Servers = slices.Clone(m.config.ClusterDNS)
			config.Searches = m.clusterSearches(pod, config.Searches)
			config.Options = []string{"ndots:5"}
			return config, nil
		}
		config.warn("MissingClusterDNS", fmt.Sprintf(
			"pod: %q. shim does not have ClusterDNS IP configured and cannot create Pod using %q policy. Falling back to %q policy.",
			pod.Name+"_"+pod.Namespace+"("+string(pod.UID)+")", corev1.DNSClusterFirst, corev1.DNSDefault))
	}
	if m.config.ResolvConf == "" {
		config.Servers = m.localhostServers()
		config.Searches = []string{"."}
	}
	return config, nil
}

// wantsClusterDNS follows dnsPolicy; an unknown one counts as ClusterFirst.
func wantsClusterDNS(pod *corev1.Pod) bool {
	switch pod.Spec.DNSPolicy {
	case corev1.DNSDefault:
		return false
	case corev1.DNSClusterFirst:
		return !pod.Spec.HostNetwork
	default: // ClusterFirstWithHostNet, None, or a policy that is not one.
		return true
	}
}

func (m *Manager) clusterSearches(pod *corev1.Pod, host []string) []string {
	domain := m.config.ClusterDomain
	if domain == "" {
		return host
	}
	return unique(append([]string{pod.Namespace + ".svc." + domain, "svc." + domain, domain}, host...))
}

func (m *Manager) localhostServers() []string {
	var servers []string
	for _, ip := range m.config.NodeIPs {
		if addr, err := netip.ParseAddr(ip); err == nil && addr.Is6() && !addr.Is4In6() {
			servers = append(servers, "::1")
		} else {
			servers = append(servers, "127.0.0.1")
		}
	}
	if len(servers) == 0 {
		servers = []string{"127.0.0.1"}
	}
	return servers
}

func (c *DNSConfig) warn(reason, message string) {
	c.Warnings = append(c.Warnings, Warning{Reason: reason, Message: message})
}

// limit cuts off what resolvers do not take. (dns.go:formDNSConfigFitsLimits)
func (c *DNSConfig) limit() {
	if len(c.Servers) > maxNameservers {
		c.Servers = c.Servers[:maxNameservers]
		c.warn("DNSConfigForming", "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: "+strings.Join(c.Servers, " "))
	}
	if kept := limitSearches(c.Searches); len(kept) < len(c.Searches) {
		c.Searches = kept
		c.warn("DNSConfigForming", "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: "+strings.Join(kept, " "))
	}
}

func limitSearches(searches []string) []string {
	kept := searches[:min(len(searches), maxSearches)]
	kept = slices.DeleteFunc(slices.Clone(kept), func(s string) bool { return len(s) > maxDomainLength })
	for len(strings.Join(kept, " ")) > maxSearchLength {
		kept = kept[:len(kept)-1]
	}
	return kept
}

func readResolvConf(node hostfs.Root, path string) (DNSConfig, error) {
	if path == "" {
		return DNSConfig{}, nil
	}
	f, err := node.Open(path, unix.O_RDONLY)
	if err != nil {
		return DNSConfig{}, fmt.Errorf("read resolver configuration: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	content, err := io.ReadAll(io.LimitReader(f, maxResolvConf+1))
	if err != nil {
		return DNSConfig{}, fmt.Errorf("read resolver configuration: %w", err)
	}
	if len(content) > maxResolvConf {
		return DNSConfig{}, fmt.Errorf("read resolver configuration %q: longer than %d bytes", path, maxResolvConf)
	}
	config, err := parseResolvConf(string(content))
	if err != nil {
		return DNSConfig{}, fmt.Errorf("read resolver configuration %q: %w", path, err)
	}
	return config, nil
}

// parseResolvConf adds up nameservers and options; of search lines the last
// counts. (dns.go:parseResolvConf)
func parseResolvConf(content string) (DNSConfig, error) {
	var config DNSConfig
	for line := range strings.Lines(content) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		switch fields[0] {
		case "nameserver":
			if len(fields) < 2 {
				return DNSConfig{}, errors.New("nameserver list is empty")
			}
			config.Servers = append(config.Servers, fields[1])
		case "search":
			config.Searches = nil
			for _, search := range fields[1:] {
				if search != "." {
					config.Searches = append(config.Searches, strings.TrimSuffix(search, "."))
				}
			}
		case "options":
			for _, option := range fields[1:] {
				config.Options = setOption(config.Options, option)
			}
		}
	}
	return config, nil
}

// setOption adds an option or replaces the one of that name.
func setOption(options []string, option string) []string {
	name, _, _ := strings.Cut(option, ":")
	for i, old := range options {
		if oldName, _, _ := strings.Cut(old, ":"); oldName == name {
			options[i] = option
			return options
		}
	}
	return append(options, option)
}

func unique(values []string) []string {
	var out []string
	for _, value := range values {
		if !slices.Contains(out, value) {
			out = append(out, value)
		}
	}
	return out
}
