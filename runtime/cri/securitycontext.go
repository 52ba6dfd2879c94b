// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// imageUser is who an image's command runs as: a number, or a name if there is
// none.
type imageUser struct {
	uid  *int64
	name string
}

// containerSecurity is the security context of a container: its own fields
// before the pod's. (kubelet kuberuntime/security_context.go:determineEffectiveSecurityContext)
func (c *Client) containerSecurity(pod *corev1.Pod, container *corev1.Container, user imageUser, users *runtimeapi.UserNamespace) (*runtimeapi.LinuxContainerSecurityContext, error) {
	sc := effectiveSecurity(pod, container)
	seccomp, err := seccompProfile(podspec.SeccompProfile(pod, container), c.config.SeccompRoot)
	if err != nil {
		return nil, err
	}
	apparmor, apparmorName, err := apparmorProfile(apparmorField(pod, container))
	if err != nil {
		return nil, err
	}
	out := &runtimeapi.LinuxContainerSecurityContext{
		Capabilities:     capabilities(sc.Capabilities),
		Privileged:       isTrue(sc.Privileged),
		NamespaceOptions: namespaceOptions(pod, users),
		SelinuxOptions:   selinuxOptions(sc.SELinuxOptions),
		RunAsUser:        int64Value(sc.RunAsUser),
		RunAsGroup:       int64Value(sc.RunAsGroup),
		ReadonlyRootfs:   isTrue(sc.ReadOnlyRootFilesystem),
		NoNewPrivs:       sc.AllowPrivilegeEscalation != nil && !*sc.AllowPrivilegeEscalation,
		Seccomp:          seccomp,
		Apparmor:         apparmor,
		ApparmorProfile:  apparmorName, //nolint:staticcheck // older runtimes know only the name
	}
	if sc.ProcMount == nil || *sc.ProcMount != corev1.UnmaskedProcMount {
		out.MaskedPaths, out.ReadonlyPaths = c.node.maskedPaths, readonlyPaths()
	}
	if out.RunAsUser == nil {
		out.RunAsUser, out.RunAsUsername = int64Value(user.uid), user.name
	}
	if podSecurity := pod.Spec.SecurityContext; podSecurity != nil {
		out.SupplementalGroups = supplementalGroups(podSecurity)
		if out.SupplementalGroupsPolicy, err = groupsPolicy(podSecurity); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// effectiveSecurity merges the pod's security context into the container's.
// (pkg/securitycontext/util.go:DetermineEffectiveSecurityContext)
func effectiveSecurity(pod *corev1.Pod, container *corev1.Container) corev1.SecurityContext {
	var out corev1.SecurityContext
	if container.SecurityContext != nil {
		out = *container.SecurityContext
	}
	sc := pod.Spec.SecurityContext
	if sc == nil {
		return out
	}
	if out.SELinuxOptions == nil {
		out.SELinuxOptions = sc.SELinuxOptions
	}
	if out.RunAsUser == nil {
		out.RunAsUser = sc.RunAsUser
	}
	if out.RunAsGroup == nil {
		out.RunAsGroup = sc.RunAsGroup
	}
	if out.RunAsNonRoot == nil {
		out.RunAsNonRoot = sc.RunAsNonRoot
	}
	return out
}

// VerifyNonRoot looks whether a container from an image that the runtime has as ref would run as root although
// runAsNonRoot forbids it. Its error is the one that CreateContainer would return.
func (c *Client) VerifyNonRoot(ctx context.Context, pod *corev1.Pod, container *corev1.Container, ref string) error {
	user, err := c.imageUser(ctx, ref, container.Image)
	if err != nil {
		return err
	}
	return verifyNonRoot(pod, container, user)
}

// verifyNonRoot refuses root where runAsNonRoot asks for it. (kubelet
// kuberuntime/security_context_others.go:verifyRunAsNonRoot)
func verifyNonRoot(pod *corev1.Pod, container *corev1.Container, user imageUser) error {
	sc := effectiveSecurity(pod, container)
	if !isTrue(sc.RunAsNonRoot) {
		return nil
	}
	who := fmt.Sprintf("(pod: %q, container: %s)", podspec.Format(pod), container.Name)
	switch {
	case sc.RunAsUser != nil && *sc.RunAsUser == 0:
		return fmt.Errorf("container's runAsUser breaks non-root policy %s", who)
	case sc.RunAsUser != nil:
		return nil
	case user.uid == nil && user.name != "":
		return fmt.Errorf("container has runAsNonRoot and image has non-numeric user (%s), cannot verify user is non-root %s", user.name, who)
	case user.uid == nil:
		return nil
	case *user.uid == 0:
		return fmt.Errorf("container has runAsNonRoot and image will run as root %s", who)
	case *user.uid < 0 || *user.uid > math.MaxInt32:
		return fmt.Errorf("container has runAsNonRoot and image has an invalid user id (%d). (Must be 1-(%d)): must be between 0 and %d, inclusive %s",
			*user.uid, math.MaxInt32, math.MaxInt32, who)
	}
	return nil
}

// seccompProfile converts a profile; none is Unconfined, as in a kubelet without
// seccompDefault. (kubelet kuberuntime/helpers.go:fieldSeccompProfile)
func seccompProfile(p *corev1.SeccompProfile, root string) (*runtimeapi.SecurityProfile, error) {
	if p == nil {
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}, nil
	}
	switch p.Type {
	case corev1.SeccompProfileTypeRuntimeDefault:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}, nil
	case corev1.SeccompProfileTypeLocalhost:
		if p.LocalhostProfile == nil || *p.LocalhostProfile == "" {
			return nil, errors.New("localhostProfile must be set if seccompProfile type is Localhost")
		}
		if root == "" {
			return nil, errors.New("seccompProfile type Localhost: the node has no directory of seccomp profiles")
		}
		if !filepath.IsLocal(*p.LocalhostProfile) {
			return nil, fmt.Errorf("localhostProfile %q leaves the directory of seccomp profiles", *p.LocalhostProfile)
		}
		return &runtimeapi.SecurityProfile{
			ProfileType:  runtimeapi.SecurityProfile_Localhost,
			LocalhostRef: filepath.Join(root, *p.LocalhostProfile),
		}, nil
	case corev1.SeccompProfileTypeUnconfined:
	}
	return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}, nil
}

func apparmorField(pod *corev1.Pod, container *corev1.Container) *corev1.AppArmorProfile {
	if sc := container.SecurityContext; sc != nil && sc.AppArmorProfile != nil {
		return sc.AppArmorProfile
	}
	if sc := pod.Spec.SecurityContext; sc != nil {
		return sc.AppArmorProfile
	}
	return nil
}

// apparmorProfile converts a profile, also to the name that older runtimes know.
// (kubelet kuberuntime/helpers.go:getAppArmorProfile)
func apparmorProfile(p *corev1.AppArmorProfile) (*runtimeapi.SecurityProfile, string, error) {
	if p == nil {
		return nil, "", nil
	}
	switch p.Type {
	case corev1.AppArmorProfileTypeRuntimeDefault:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault},
			corev1.DeprecatedAppArmorBetaProfileRuntimeDefault, nil
	case corev1.AppArmorProfileTypeUnconfined:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined},
			corev1.DeprecatedAppArmorBetaProfileNameUnconfined, nil
	case corev1.AppArmorProfileTypeLocalhost:
		if p.LocalhostProfile == nil {
			return nil, "", errors.New("missing localhost apparmor profile name")
		}
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: *p.LocalhostProfile},
			corev1.DeprecatedAppArmorBetaProfileNamePrefix + *p.LocalhostProfile, nil
	}
	return nil, "", fmt.Errorf("unknown apparmor profile type: %q", p.Type)
}

func capabilities(c *corev1.Capabilities) *runtimeapi.Capability {
	if c == nil {
		return nil
	}
	out := &runtimeapi.Capability{}
	for _, name := range c.Add {
		out.AddCapabilities = append(out.AddCapabilities, string(name))
	}
	for _, name := range c.Drop {
		out.DropCapabilities = append(out.DropCapabilities, string(name))
	}
	return out
}

func selinuxOptions(o *corev1.SELinuxOptions) *runtimeapi.SELinuxOption {
	if o == nil {
		return nil
	}
	return &runtimeapi.SELinuxOption{User: o.User, Role: o.Role, Type: o.Type, Level: o.Level}
}

// supplementalGroups are the pod's, its fsGroup among them.
func supplementalGroups(sc *corev1.PodSecurityContext) []int64 {
	var groups []int64
	if sc.FSGroup != nil {
		groups = append(groups, *sc.FSGroup)
	}
	return append(groups, sc.SupplementalGroups...)
}

func groupsPolicy(sc *corev1.PodSecurityContext) (runtimeapi.SupplementalGroupsPolicy, error) {
	if sc.SupplementalGroupsPolicy == nil {
		return runtimeapi.SupplementalGroupsPolicy_Merge, nil
	}
	policy, ok := runtimeapi.SupplementalGroupsPolicy_value[string(*sc.SupplementalGroupsPolicy)]
	if !ok {
		return 0, fmt.Errorf("unsupported supplementalGroupsPolicy: %s", *sc.SupplementalGroupsPolicy)
	}
	return runtimeapi.SupplementalGroupsPolicy(policy), nil
}

func int64Value(n *int64) *runtimeapi.Int64Value {
	if n == nil {
		return nil
	}
	return &runtimeapi.Int64Value{Value: *n}
}

func isTrue(b *bool) bool {
	return b != nil && *b
}

// readonlyPaths of a container whose procMount is Default.
// (pkg/securitycontext/util.go)
func readonlyPaths() []string {
	return []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
}
