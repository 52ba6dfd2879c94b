// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podvalidation

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Bounds of a resolv.conf.
const (
	maxNameservers = 3
	maxSearches    = 32
	maxSearchChars = 2048
)

// network checks the names and addresses of a pod, and those that it resolves.
func (p *problems) network(spec *corev1.PodSpec, path *field.Path) {
	p.optionalName(path.Child("hostname"), spec.Hostname, validation.IsDNS1123Label)
	p.optionalName(path.Child("subdomain"), spec.Subdomain, validation.IsDNS1123Label)
	for i, alias := range spec.HostAliases {
		at := path.Child("hostAliases").Index(i)
		p.ip(at.Child("ip"), alias.IP)
		for j, name := range alias.Hostnames {
			p.invalid(at.Child("hostnames").Index(j), name, validation.IsDNS1123Subdomain(name)...)
		}
	}
	oneOf(p, path.Child("dnsPolicy"), spec.DNSPolicy,
		corev1.DNSClusterFirst, corev1.DNSClusterFirstWithHostNet, corev1.DNSDefault, corev1.DNSNone)
	p.dns(spec, path.Child("dnsConfig"))
}

// ip checks an address, without the forms of which parsers make different ones.
func (p *problems) ip(path *field.Path, ip string) {
	const strict = true
	p.add(validation.IsValidIPForLegacyField(path, ip, strict, nil)...)
}

func (p *problems) dns(spec *corev1.PodSpec, path *field.Path) {
	config := spec.DNSConfig
	if spec.DNSPolicy == corev1.DNSNone && config == nil {
		p.add(field.Required(path, fmt.Sprintf("must provide `dnsConfig` when `dnsPolicy` is %s", corev1.DNSNone)))
	}
	if config == nil {
		return
	}
	servers, searches := path.Child("nameservers"), path.Child("searches")
	if spec.DNSPolicy == corev1.DNSNone && len(config.Nameservers) == 0 {
		p.add(field.Required(servers, fmt.Sprintf("must provide at least one DNS nameserver when `dnsPolicy` is %s", corev1.DNSNone)))
	}
	if len(config.Nameservers) > maxNameservers {
		p.invalid(servers, config.Nameservers, fmt.Sprintf("must not have more than %d nameservers", maxNameservers))
	}
	for i, server := range config.Nameservers {
		p.ip(servers.Index(i), server)
	}
	if len(config.Searches) > maxSearches {
		p.invalid(searches, config.Searches, fmt.Sprintf("must not have more than %d search paths", maxSearches))
	}
	if len(strings.Join(config.Searches, " ")) > maxSearchChars {
		p.invalid(searches, config.Searches, fmt.Sprintf("must not have more than %d characters (including spaces) in the search list", maxSearchChars))
	}
	for i, search := range config.Searches {
		if search != "." {
			search = strings.TrimSuffix(search, ".")
			p.invalid(searches.Index(i), search, validation.IsDNS1123SubdomainWithUnderscore(search)...)
		}
	}
	for i, option := range config.Options {
		if option.Name == "" {
			p.add(field.Required(path.Child("options").Index(i), "must not be empty"))
		}
	}
}
