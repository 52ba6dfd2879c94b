// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

var nodeAdmissionMistakes = []mistake{
	{"a seccomp profile that is not there is admitted", "Seccomp.Admit",
		"errors.Is(err, fs.ErrNotExist)", "errors.Is(err, fs.ErrNotExist) && false"},
	{"a sysctl that is too new for the kernel is allowed", "NewSysctls",
		`if safe.since == "" || kernel != nil && kernel.AtLeast(`, `if safe.since == "" || kernel == nil || true || kernel.AtLeast(`},
	{"a sysctl of the node's network is allowed", "Sysctls.forbids",
		"namespace == sysctl.NetNamespace && pod.Spec.HostNetwork", "false"},
	{"a sysctl with slashes is another one", "Sysctls.Admit",
		"s.forbids(sysctl.NormalizeName(set.Name), pod)", "s.forbids(set.Name, pod)"},
	{"a sysctl that no namespace keeps can be allowed", "Sysctls.allow",
		"case namespace == sysctl.UnknownNamespace:", "case false:"},
	{"a host port belongs to one protocol", "conflict",
		"|| cmp.Or(p.Protocol, corev1.ProtocolTCP) != cmp.Or(q.Protocol, corev1.ProtocolTCP) {", "{"},
	{"a port of all addresses leaves room for one of them", "conflict",
		"return a == b || a == everyAddress || b == everyAddress", "return a == b"},
	{"the host port of a sidecar counts for nothing", "longRunning",
		"podspec.IsSidecar(c) && !yield(c)", "podspec.IsSidecar(c) && false"},
	{"a profile that is not loaded is admitted", "AppArmor.notLoaded",
		"case known && !loaded[*p.LocalhostProfile]:", "case known && loaded[*p.LocalhostProfile] && false:"},
	{"profiles that cannot be read are refused", "AppArmor.notLoaded",
		"case known && !loaded[*p.LocalhostProfile]:", "case (known || true) && !loaded[*p.LocalhostProfile]:"},
	{"a kernel that cannot be read has no AppArmor", "AppArmor.disabled",
		"return errors.Is(err, fs.ErrNotExist)", "return errors.Is(err, fs.ErrNotExist) || true"},
	{"a runtime that does not answer refuses", "Features.Admit",
		"has, err := f.Runtime()\n\tif err != nil {\n\t\treturn nil", "has, err := f.Runtime()\n\tif false {\n\t\treturn nil"},
	{"a handler is unknown to a runtime that lists none", "handlerRefusal",
		"if !known && len(handlers) > 0 {", "if !known {"},
	{"the last refusal counts", "Handlers.Admit",
		"if refusal := admit(pod); refusal != nil {\n\t\t\treturn refusal", "if refusal := admit(pod); refusal != nil {\n\t\t\tdefer func() { _ = refusal }()"},
	{"Unconfined needs AppArmor", "appArmorOf",
		"&& profile.Type != corev1.AppArmorProfileTypeUnconfined", ""},
	{"the profile of a container does not count", "appArmorOf",
		"sc != nil && sc.AppArmorProfile != nil {", "sc != nil && false {"},
	{"a sysctl of the node's IPC is allowed", "Sysctls.forbids",
		"namespace == sysctl.IPCNamespace && pod.Spec.HostIPC", "false"},
	{"a port of an init container counts", "longRunning",
		"podspec.IsSidecar(c) && !yield(c)", "(podspec.IsSidecar(c) || true) && !yield(c)"},
	{"strict groups are admitted where the runtime does not know them", "Features.Admit",
		"strictGroups(pod) && !has.GroupsPolicy", "false"},
	{"a recursive read-only mount is admitted where it is not one", "handlerRefusal",
		`volume != "" && !handler.RecursiveReadOnly`, `volume != "" && false`},
}

var pausedMistakes = []mistake{
	{"what is not prepared has another reason than the kubelet's", "syncRun.prepare",
		"reason = other.EventReason()", "_ = other"},
	{"the record does not say that the container was paused", "kill.notePaused",
		"if k.e.freezer.Paused(ctx, k.pod.UID, k.ID) {", "if false {"},
	{"a container that stays paused is not resumed", "stopCalls.run",
		"case <-s.overdue:\n\t\t\ts.k.thaw(ctx)", "case <-s.overdue:"},
	{"a container that runs is resumed", "kill.thaw",
		"if !k.e.freezer.Paused(ctx, k.pod.UID, k.ID) {", "if false {"},
}

var freezerMistakes = []mistake{
	{"another pod's container is resumed", "Manager.freezerOf",
		"if err != nil || !namesPod(filepath.Dir(f.path), uid) {", "if err != nil {"},
	{"a container of cgroup v1 never counts as paused", "freezer.frozen",
		`strings.TrimSpace(string(state)) != "THAWED"`, `strings.TrimSpace(string(state)) == "?"`},
	{"a container below its cgroup stays paused", "Manager.Thaw",
		"path = filepath.Dir(path) {", "path = \"/\" {"},
}
