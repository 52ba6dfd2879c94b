// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeadmission

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// Files of the kernel.
const (
	appArmorEnabled  = "/sys/module/apparmor/parameters/enabled"
	appArmorProfiles = "/sys/kernel/security/apparmor/profiles"
)

// Words of the kubelet. That of a profile is from before it left this to the runtime.
// (kubelet lifecycle/handlers.go, pkg/security/apparmor)
const (
	reasonAppArmor     = "AppArmor"
	messageAppArmor    = "Cannot enforce AppArmor: "
	appArmorDisabled   = "AppArmor is not enabled on the host"
	appArmorEmptyName  = "invalid empty AppArmor profile name"
	appArmorNotLoadedf = "profile %q is not loaded"
)

// AppArmor admits pods whose profiles the kernel has.
type AppArmor struct {
	// ReadFile reads a file of the node.
	ReadFile func(path string) ([]byte, error)
}

// Admit refuses a pod that asks for a profile where the kernel has no AppArmor, or for one
// that is not loaded. What cannot be read is no reason: the runtime has the last word.
// (kubelet lifecycle/handlers.go:appArmorAdmitHandler)
func (a *AppArmor) Admit(pod *corev1.Pod) *plan.Refusal {
	var problem string
	profiles := appArmorOf(pod)
	if len(profiles) > 0 {
		if a.disabled() {
			problem = appArmorDisabled
		} else {
			problem = a.notLoaded(profiles)
		}
	}
	if problem == "" {
		return nil
	}
	return &plan.Refusal{Reason: reasonAppArmor, Message: messageAppArmor + problem}
}

// appArmorOf are the profiles that containers of a pod ask for, without Unconfined.
func appArmorOf(pod *corev1.Pod) []*corev1.AppArmorProfile {
	var of *corev1.AppArmorProfile
	if sc := pod.Spec.SecurityContext; sc != nil {
		of = sc.AppArmorProfile
	}
	var profiles []*corev1.AppArmorProfile
	for c := range podspec.InitAndMain(pod) {
		profile := of
		if sc := c.SecurityContext; sc != nil && sc.AppArmorProfile != nil {
			profile = sc.AppArmorProfile
		}
		if profile != nil && profile.Type != corev1.AppArmorProfileTypeUnconfined {
			profiles = append(profiles, profile)
		}
	}
	return profiles
}

func (a *AppArmor) disabled() bool {
	enabled, err := a.ReadFile(appArmorEnabled)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	return !bytes.HasPrefix(enabled, []byte("Y"))
}

// notLoaded names a profile of the node that the kernel does not have; "" if none.
func (a *AppArmor) notLoaded(profiles []*corev1.AppArmorProfile) string {
	loaded, known := a.loaded()
	for _, p := range profiles {
		if p.Type != corev1.AppArmorProfileTypeLocalhost {
			continue
		}
		switch {
		case p.LocalhostProfile == nil || strings.TrimSpace(*p.LocalhostProfile) == "":
			return appArmorEmptyName
		case known && !loaded[*p.LocalhostProfile]:
			return fmt.Sprintf(appArmorNotLoadedf, *p.LocalhostProfile)
		}
	}
	return ""
}

// loaded are the kernel's profiles, if it lists them: each line is a name and, in
// parentheses, a mode.
func (a *AppArmor) loaded() (map[string]bool, bool) {
	data, err := a.ReadFile(appArmorProfiles)
	if err != nil {
		return nil, false
	}
	names := map[string]bool{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		name := lines.Text()
		if mode := strings.LastIndex(name, " ("); mode >= 0 {
			name = name[:mode]
		}
		names[name] = true
	}
	return names, lines.Err() == nil && len(names) > 0
}
