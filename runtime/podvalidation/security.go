// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podvalidation

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-helpers/node/util/sysctl"
	"k8s.io/utils/ptr"
)

// podSecurity checks the namespaces and the rights of a pod.
func (p *problems) podSecurity(spec *corev1.PodSpec, path *field.Path) {
	if !ptr.Deref(spec.HostUsers, true) {
		for name, set := range map[string]bool{"hostNetwork": spec.HostNetwork, "hostPID": spec.HostPID, "hostIPC": spec.HostIPC} {
			if set {
				p.forbidden(path.Child(name), "when `hostUsers` is false")
			}
		}
	}
	if ptr.Deref(spec.ShareProcessNamespace, false) && spec.HostPID {
		p.invalid(path.Child("shareProcessNamespace"), true, "ShareProcessNamespace and HostPID cannot both be enabled")
	}
	sc, at := spec.SecurityContext, path.Child("securityContext")
	if sc == nil {
		return
	}
	p.user(sc.RunAsUser, sc.RunAsGroup, at)
	p.group(sc.FSGroup, at.Child("fsGroup"))
	for i := range sc.SupplementalGroups {
		p.group(&sc.SupplementalGroups[i], at.Child("supplementalGroups").Index(i))
	}
	optionalOneOf(p, at.Child("supplementalGroupsPolicy"), sc.SupplementalGroupsPolicy, corev1.SupplementalGroupsPolicyMerge, corev1.SupplementalGroupsPolicyStrict)
	optionalOneOf(p, at.Child("fsGroupChangePolicy"), sc.FSGroupChangePolicy, corev1.FSGroupChangeAlways, corev1.FSGroupChangeOnRootMismatch)
	optionalOneOf(p, at.Child("seLinuxChangePolicy"), sc.SELinuxChangePolicy, corev1.SELinuxChangePolicyMountOption, corev1.SELinuxChangePolicyRecursive)
	p.seccomp(sc.SeccompProfile, at.Child("seccompProfile"))
	p.appArmor(sc.AppArmorProfile, at.Child("appArmorProfile"))
	p.sysctls(spec, sc.Sysctls, at.Child("sysctls"))
}

func (p *problems) containerSecurity(pod pod, sc *corev1.SecurityContext, path *field.Path) {
	if sc == nil {
		return
	}
	p.user(sc.RunAsUser, sc.RunAsGroup, path)
	p.seccomp(sc.SeccompProfile, path.Child("seccompProfile"))
	p.appArmor(sc.AppArmorProfile, path.Child("appArmorProfile"))
	optionalOneOf(p, path.Child("procMount"), sc.ProcMount, corev1.DefaultProcMount, corev1.UnmaskedProcMount)
	if ptr.Deref(sc.ProcMount, corev1.DefaultProcMount) == corev1.UnmaskedProcMount && ptr.Deref(pod.spec.HostUsers, true) {
		p.invalid(path.Child("procMount"), *sc.ProcMount, "`hostUsers` must be false to use `Unmasked`")
	}
	if ptr.Deref(sc.AllowPrivilegeEscalation, true) {
		return
	}
	at := path.Child("allowPrivilegeEscalation")
	if ptr.Deref(sc.Privileged, false) {
		p.invalid(at, false, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
	}
	if sc.Capabilities != nil && slices.Contains(sc.Capabilities.Add, "CAP_SYS_ADMIN") {
		p.invalid(at, false, "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN")
	}
}

func (p *problems) user(user, group *int64, path *field.Path) {
	if user != nil {
		p.invalid(path.Child("runAsUser"), *user, validation.IsValidUserID(*user)...)
	}
	p.group(group, path.Child("runAsGroup"))
}

func (p *problems) group(group *int64, path *field.Path) {
	if group != nil {
		p.invalid(path, *group, validation.IsValidGroupID(*group)...)
	}
}

func (p *problems) seccomp(profile *corev1.SeccompProfile, path *field.Path) {
	if profile == nil {
		return
	}
	oneOf(p, path.Child("type"), profile.Type,
		corev1.SeccompProfileTypeLocalhost, corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined)
	switch at := path.Child("localhostProfile"); {
	case profile.Type != corev1.SeccompProfileTypeLocalhost && profile.LocalhostProfile != nil:
		p.invalid(at, *profile.LocalhostProfile, "can only be set when seccomp type is Localhost")
	case profile.Type == corev1.SeccompProfileTypeLocalhost && profile.LocalhostProfile == nil:
		p.add(field.Required(at, "must be set when seccomp type is Localhost"))
	case profile.LocalhostProfile != nil:
		p.below(at, *profile.LocalhostProfile)
	}
}

// maxAppArmorProfile is the longest name of a profile.
const maxAppArmorProfile = 4095

func (p *problems) appArmor(profile *corev1.AppArmorProfile, path *field.Path) {
	if profile == nil {
		return
	}
	oneOf(p, path.Child("type"), profile.Type,
		corev1.AppArmorProfileTypeLocalhost, corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined)
	name, at := ptr.Deref(profile.LocalhostProfile, ""), path.Child("localhostProfile")
	switch trimmed := strings.TrimSpace(name); {
	case profile.Type != corev1.AppArmorProfileTypeLocalhost && profile.LocalhostProfile != nil:
		p.invalid(at, name, "can only be set when AppArmor type is Localhost")
	case profile.Type != corev1.AppArmorProfileTypeLocalhost:
	case name == "":
		p.add(field.Required(at, "must be set when AppArmor type is Localhost"))
	case trimmed != name:
		p.invalid(at, name, "must not be padded with whitespace")
	case len(name) > maxAppArmorProfile:
		p.add(field.TooLong(at, "", maxAppArmorProfile))
	}
}

// sysctlName is the form of a sysctl's name.
var sysctlName = regexp.MustCompile(`^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$`)

func (p *problems) sysctls(spec *corev1.PodSpec, sysctls []corev1.Sysctl, path *field.Path) {
	seen := map[string]bool{}
	for i, s := range sysctls {
		at := path.Index(i).Child("name")
		if !p.required(at, s.Name) {
			continue
		}
		if len(s.Name) > validation.DNS1123SubdomainMaxLength || !sysctlName.MatchString(s.Name) {
			p.invalid(at, s.Name, fmt.Sprintf("must have at most %d characters and match regex %s", validation.DNS1123SubdomainMaxLength, sysctlName))
		}
		p.unique(at, s.Name, seen)
		switch namespace, _, _ := sysctl.GetNamespace(s.Name); {
		case spec.HostNetwork && namespace == sysctl.NetNamespace:
			p.invalid(at, s.Name, "may not be specified when 'hostNetwork' is true")
		case spec.HostIPC && namespace == sysctl.IPCNamespace:
			p.invalid(at, s.Name, "may not be specified when 'hostIPC' is true")
		}
	}
}
