// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package poddir

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

const nodeResolvConf = `# comment
nameserver 192.0.2.1
nameserver 192.0.2.2
search first.example
search example.com. . corp.example
options timeout:2 rotate
options timeout:3
`

func TestDNS(t *testing.T) {
	two := "2"
	node := DNSConfig{Servers: []string{"192.0.2.1", "192.0.2.2"}, Searches: []string{"example.com", "corp.example"}, Options: []string{"timeout:3", "rotate"}}
	cluster := DNSConfig{
		Servers:  []string{"10.96.0.10"},
		Searches: []string{"ns.svc.cluster.local", "svc.cluster.local", "cluster.local", "example.com", "corp.example"},
		Options:  []string{"ndots:5"},
	}
	tests := map[string]struct {
		policy      corev1.DNSPolicy
		hostNetwork bool
		clusterDNS  []string
		domain      string
		config      *corev1.PodDNSConfig
		want        DNSConfig
	}{
		"ClusterFirst":                      {policy: corev1.DNSClusterFirst, clusterDNS: []string{"10.96.0.10"}, domain: "cluster.local", want: cluster},
		"ClusterFirst on the host network":  {policy: corev1.DNSClusterFirst, hostNetwork: true, clusterDNS: []string{"10.96.0.10"}, want: node},
		"ClusterFirstWithHostNet":           {policy: corev1.DNSClusterFirstWithHostNet, hostNetwork: true, clusterDNS: []string{"10.96.0.10"}, domain: "cluster.local", want: cluster},
		"ClusterFirst without a domain":     {policy: corev1.DNSClusterFirst, clusterDNS: []string{"10.96.0.10"}, want: DNSConfig{Servers: []string{"10.96.0.10"}, Searches: node.Searches, Options: []string{"ndots:5"}}},
		"Default":                           {policy: corev1.DNSDefault, clusterDNS: []string{"10.96.0.10"}, want: node},
		"None":                              {policy: corev1.DNSNone, config: &corev1.PodDNSConfig{Nameservers: []string{"1.1.1.1"}}, want: DNSConfig{Servers: []string{"1.1.1.1"}}},
		"an unknown policy is ClusterFirst": {policy: "Other", clusterDNS: []string{"10.96.0.10"}, domain: "cluster.local", want: cluster},
		"dnsConfig is merged without repeting": {
			policy: corev1.DNSDefault,
			config: &corev1.PodDNSConfig{
				Nameservers: []string{"192.0.2.2", "1.1.1.1"}, Searches: []string{"corp.example", "more.example"},
				Options: []corev1.PodDNSConfigOption{{Name: "timeout", Value: &two}, {Name: "edns0"}},
			},
			want: DNSConfig{
				Servers: []string{"192.0.2.1", "192.0.2.2", "1.1.1.1"}, Searches: []string{"example.com", "corp.example", "more.example"},
				Options: []string{"timeout:2", "rotate", "edns0"},
			},
		},
		"ClusterFirst without servers": {
			policy: corev1.DNSClusterFirst,
			want: DNSConfig{
				Servers: node.Servers, Searches: node.Searches, Options: node.Options,
				Warnings: []Warning{{"MissingClusterDNS", `pod: "web_ns(0f1c-22)". shim does not have ClusterDNS IP configured and cannot create Pod using "ClusterFirst" policy. Falling back to "Default" policy.`}},
			},
		},
		"too many servers": {
			policy: corev1.DNSNone,
			config: &corev1.PodDNSConfig{Nameservers: []string{"1.1.1.1", "1.1.1.2", "1.1.1.3", "1.1.1.4"}},
			want: DNSConfig{
				Servers:  []string{"1.1.1.1", "1.1.1.2", "1.1.1.3"},
				Warnings: []Warning{{"DNSConfigForming", "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: 1.1.1.1 1.1.1.2 1.1.1.3"}},
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "resolv.conf")
			write(t, file, nodeResolvConf)
			m := newManager(t, func(c *Config) { c.ResolvConf, c.ClusterDNS, c.ClusterDomain = file, tt.clusterDNS, tt.domain })
			pod := testPod(func(p *corev1.Pod) {
				p.Spec.DNSPolicy, p.Spec.HostNetwork, p.Spec.DNSConfig = tt.policy, tt.hostNetwork, tt.config
			})
			got, err := m.DNS(pod)
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(tt.want, got); diff != "" {
				t.Errorf("DNS (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDNSWithoutResolvConf(t *testing.T) {
	for name, tt := range map[string]struct{ ips, want []string }{
		"both families": {[]string{"10.0.0.1", "fd00::1"}, []string{"127.0.0.1", "::1"}},
		"no IP":         {nil, []string{"127.0.0.1"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newManager(t, func(c *Config) { c.NodeIPs = tt.ips })
			got, err := m.DNS(testPod(func(p *corev1.Pod) { p.Spec.DNSPolicy = corev1.DNSDefault }))
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(DNSConfig{Servers: tt.want, Searches: []string{"."}}, got); diff != "" {
				t.Errorf("DNS (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDNSErrors(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "bad"), "nameserver\n")
	for name, file := range map[string]string{"missing": filepath.Join(dir, "none"), "no server": filepath.Join(dir, "bad"), "directory": dir} {
		t.Run(name, func(t *testing.T) {
			m := newManager(t, func(c *Config) { c.ResolvConf = file })
			if _, err := m.DNS(testPod(nil)); err == nil || !strings.Contains(err.Error(), "read resolver configuration") {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestLimitSearches(t *testing.T) {
	numbered := func(n int, suffix string) []string {
		var out []string
		for i := range n {
			out = append(out, fmt.Sprintf("d%02d%s", i, suffix))
		}
		return out
	}
	long := "." + strings.Repeat("x", 97) // 101 characters a domain
	tests := map[string]struct{ in, want []string }{
		"within":          {numbered(32, ""), numbered(32, "")},
		"too many":        {numbered(40, ""), numbered(32, "")},
		"too long a line": {numbered(25, long), numbered(20, long)},
		"too long a name": {[]string{"a", strings.Repeat("y", 254), "b"}, []string{"a", "b"}},
		"none":            {nil, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := gocmp.Diff(tt.want, limitSearches(tt.in)); diff != "" {
				t.Errorf("searches (-want +got):\n%s", diff)
			}
		})
	}
}

// A pod's full name becomes its host name where that is asked for, as far as the kernel has room
// for it.
func TestHostname(t *testing.T) {
	yes := true
	fqdn := func(hostname string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Hostname, p.Spec.Subdomain, p.Spec.SetHostnameAsFQDN = hostname, "sub", &yes
		}
	}
	tests := map[string]struct {
		change  func(*corev1.Pod)
		want    string
		wantErr string
	}{
		"name of the pod":  {change: func(*corev1.Pod) {}, want: "web"},
		"hostname":         {change: func(p *corev1.Pod) { p.Spec.Hostname = "other" }, want: "other"},
		"cut":              {change: func(p *corev1.Pod) { p.Name = strings.Repeat("a", 61) + "--" + "b" }, want: strings.Repeat("a", 61)},
		"subdomain":        {change: func(p *corev1.Pod) { p.Spec.Subdomain = "sub" }, want: "web"},
		"FQDN":             {change: fqdn("web"), want: "web.sub.ns.svc.cluster.local"},
		"FQDN without one": {change: func(p *corev1.Pod) { p.Spec.SetHostnameAsFQDN = &yes }, want: "web"},
		"override":         {change: func(p *corev1.Pod) { o := "a.b"; p.Spec.HostnameOverride = &o; p.Spec.Subdomain = "sub" }, want: "a.b"},
		"FQDN of 64":       {change: fqdn(strings.Repeat("a", 39)), want: strings.Repeat("a", 39) + ".sub.ns.svc.cluster.local"},
		"FQDN of 65": {change: fqdn(strings.Repeat("a", 40)), wantErr: "failed to construct FQDN from pod hostname and cluster domain, FQDN " +
			strings.Repeat("a", 40) + ".sub.ns.svc.cluster.local is too long (64 characters is the max, 65 characters requested)"},
	}
	m := newManager(t, nil)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := m.Hostname(testPod(tt.change))
			if got != tt.want || fmt.Sprint(err) != cmp.Or(tt.wantErr, "<nil>") {
				t.Errorf("hostname %q, %v; want %q, %s", got, err, tt.want, tt.wantErr)
			}
		})
	}
}
