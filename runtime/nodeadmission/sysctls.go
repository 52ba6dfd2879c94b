// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeadmission

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-helpers/node/util/sysctl"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// reasonSysctl is the kubelet's. (kubelet sysctl/allowlist.go)
const reasonSysctl = "SysctlForbidden"

// safeSysctls are namespaced and cannot harm the node or other pods, each since a version of
// the kernel; "" is any that Kubernetes runs on. (kubelet sysctl/safe_sysctls.go)
var safeSysctls = []struct{ name, since string }{
	{"kernel.shm_rmid_forced", ""},
	{"net.ipv4.ip_local_port_range", ""},
	{"net.ipv4.tcp_syncookies", ""},
	{"net.ipv4.ping_group_range", ""},
	{"net.ipv4.ip_unprivileged_port_start", ""},
	{"net.ipv4.ip_local_reserved_ports", "3.16"},
	{"net.ipv4.tcp_keepalive_time", "4.5"},
	{"net.ipv4.tcp_fin_timeout", "4.6"},
	{"net.ipv4.tcp_keepalive_intvl", "4.5"},
	{"net.ipv4.tcp_keepalive_probes", "4.5"},
	{"net.ipv4.tcp_rmem", "4.15"},
	{"net.ipv4.tcp_wmem", "4.15"},
}

// maxSysctl is the longest name of a sysctl in the API.
const maxSysctl = 253

// sysctlPattern is the form of a sysctl's name, or of the beginning of names and "*".
// (pkg/apis/policy/validation:IsValidSysctlPattern)
var sysctlPattern = regexp.MustCompile("^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*([a-z0-9][-_a-z0-9]*)?[a-z0-9*]$")

var errNotNamespaced = errors.New("not known to be namespaced by the kernel")

// Sysctls admits the sysctls that a pod may set on the node.
type Sysctls struct {
	names    map[string]sysctl.Namespace
	prefixes []sysctlPrefix
}

type sysctlPrefix struct {
	begin     string
	namespace sysctl.Namespace
}

// NewSysctls allows the safe sysctls that a kernel has, and those unsafe ones: names, or
// beginnings of names that end in "*". A nil kernel is one of unknown version. (kubelet
// sysctl/allowlist.go:NewAllowlist)
func NewSysctls(kernel *version.Version, unsafe []string) (*Sysctls, error) {
	s := &Sysctls{names: map[string]sysctl.Namespace{}}
	for _, safe := range safeSysctls {
		if safe.since == "" || kernel != nil && kernel.AtLeast(version.MustParseGeneric(safe.since)) {
			if err := s.allow(safe.name); err != nil {
				return nil, err
			}
		}
	}
	for _, pattern := range unsafe {
		if err := s.allow(pattern); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *Sysctls) allow(pattern string) error {
	if len(pattern) > maxSysctl || !sysctlPattern.MatchString(pattern) {
		return fmt.Errorf("sysctl %q must have at most %d characters and match regex %s", pattern, maxSysctl, sysctlPattern)
	}
	namespace, begin, prefixed := sysctl.GetNamespace(pattern)
	switch {
	case namespace == sysctl.UnknownNamespace:
		return fmt.Errorf("sysctl %q: %w", pattern, errNotNamespaced)
	case prefixed:
		s.prefixes = append(s.prefixes, sysctlPrefix{begin, namespace})
	default:
		s.names[begin] = namespace
	}
	return nil
}

// Admit refuses a pod that sets another sysctl, or one of a namespace that it shares with the
// node. (kubelet sysctl/allowlist.go:Admit)
func (s *Sysctls) Admit(pod *corev1.Pod) *plan.Refusal {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	for _, set := range pod.Spec.SecurityContext.Sysctls {
		if why := s.forbids(sysctl.NormalizeName(set.Name), pod); why != "" {
			return &plan.Refusal{Reason: reasonSysctl, Message: "forbidden sysctl: " + why}
		}
	}
	return nil
}

// forbids is why a pod may not set a sysctl; "" if it may.
func (s *Sysctls) forbids(name string, pod *corev1.Pod) string {
	namespace, allowed := s.names[name]
	for _, prefix := range s.prefixes {
		if allowed {
			break
		}
		namespace, allowed = prefix.namespace, strings.HasPrefix(name, prefix.begin)
	}
	switch {
	case !allowed:
		return fmt.Sprintf("%q not allowlisted", name)
	case namespace == sysctl.IPCNamespace && pod.Spec.HostIPC, namespace == sysctl.NetNamespace && pod.Spec.HostNetwork:
		return fmt.Sprintf("%q not allowed with host %s enabled", name, namespace)
	}
	return ""
}
