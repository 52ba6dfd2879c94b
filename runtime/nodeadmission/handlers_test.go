// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeadmission

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// podWith is a pod with a container, changed.
func podWith(change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}, SecurityContext: &corev1.PodSecurityContext{}}}
	for _, f := range change {
		f(pod)
	}
	return pod
}

func setting(names ...string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		for _, name := range names {
			pod.Spec.SecurityContext.Sysctls = append(pod.Spec.SecurityContext.Sysctls, corev1.Sysctl{Name: name, Value: "1"})
		}
	}
}

func hostNetwork(pod *corev1.Pod) { pod.Spec.HostNetwork = true }
func hostIPC(pod *corev1.Pod)     { pod.Spec.HostIPC = true }

func TestSysctls(t *testing.T) {
	tests := map[string]struct {
		pod    *corev1.Pod
		kernel string
		want   string
	}{
		"none":                            {pod: podWith()},
		"no security context":             {pod: &corev1.Pod{}},
		"safe ones":                       {pod: podWith(setting("kernel.shm_rmid_forced", "net.ipv4.tcp_rmem"))},
		"safe, with slashes":              {pod: podWith(setting("net/ipv4/tcp_rmem"))},
		"unsafe":                          {pod: podWith(setting("net.core.somaxconn")), want: `forbidden sysctl: "net.core.somaxconn" not allowlisted`},
		"unsafe, with slashes":            {pod: podWith(setting("net/core/somaxconn")), want: `forbidden sysctl: "net.core.somaxconn" not allowlisted`},
		"unsafe beside a safe one":        {pod: podWith(setting("net.ipv4.tcp_syncookies", "kernel.sem")), want: `forbidden sysctl: "kernel.sem" not allowlisted`},
		"allowed by name":                 {pod: podWith(setting("kernel.msgmax"))},
		"allowed by the beginning":        {pod: podWith(setting("net.ipv6.conf.all.forwarding"))},
		"of the node's network":           {pod: podWith(hostNetwork, setting("net.ipv4.tcp_syncookies")), want: `forbidden sysctl: "net.ipv4.tcp_syncookies" not allowed with host Net enabled`},
		"allowed, of the node's network":  {pod: podWith(hostNetwork, setting("net.ipv6.conf.all.forwarding")), want: `forbidden sysctl: "net.ipv6.conf.all.forwarding" not allowed with host Net enabled`},
		"of the node's IPC":               {pod: podWith(hostIPC, setting("kernel.msgmax")), want: `forbidden sysctl: "kernel.msgmax" not allowed with host IPC enabled`},
		"of another namespace":            {pod: podWith(hostIPC, setting("net.ipv4.tcp_syncookies"))},
		"too new for the kernel":          {pod: podWith(setting("net.ipv4.tcp_rmem")), kernel: "4.14.9", want: `forbidden sysctl: "net.ipv4.tcp_rmem" not allowlisted`},
		"just there":                      {pod: podWith(setting("net.ipv4.tcp_rmem")), kernel: "4.15"},
		"of a kernel of unknown version":  {pod: podWith(setting("net.ipv4.tcp_keepalive_time")), kernel: "?", want: `forbidden sysctl: "net.ipv4.tcp_keepalive_time" not allowlisted`},
		"on any kernel, unknown or not":   {pod: podWith(setting("net.ipv4.ping_group_range")), kernel: "?"},
		"a beginning that is not allowed": {pod: podWith(setting("net.ipv6x.a")), want: `forbidden sysctl: "net.ipv6x.a" not allowlisted`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			kernel := version.MustParseGeneric("6.1")
			if tc.kernel != "" {
				kernel, _ = version.ParseGeneric(tc.kernel)
			}
			s, err := NewSysctls(kernel, []string{"kernel.msgmax", "net.ipv6.*"})
			if err != nil {
				t.Fatal(err)
			}
			check(t, s.Admit(tc.pod), "SysctlForbidden", tc.want)
		})
	}
}

func TestSysctlPatterns(t *testing.T) {
	for pattern, want := range map[string]string{
		"kernel.msg*":     "",
		"net/core/*":      "",
		"fs.mqueue.*":     "",
		"vm.swappiness":   `sysctl "vm.swappiness": not known to be namespaced by the kernel`,
		"kernel.*":        `sysctl "kernel.*": not known to be namespaced by the kernel`,
		"*":               `sysctl "*": not known to be namespaced by the kernel`,
		"net.*.x":         `sysctl "net.*.x" must have at most 253 characters and match regex ` + sysctlPattern.String(),
		"":                `sysctl "" must have at most 253 characters and match regex ` + sysctlPattern.String(),
		"net.core.a\nnet": `sysctl "net.core.a\nnet" must have at most 253 characters and match regex ` + sysctlPattern.String(),
	} {
		_, err := NewSysctls(nil, []string{pattern})
		if got := text(err); got != want {
			t.Errorf("%q: error %q, want %q", pattern, got, want)
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func check(t *testing.T, got *plan.Refusal, reason, message string) {
	t.Helper()
	var want *plan.Refusal
	if message != "" {
		want = &plan.Refusal{Reason: reason, Message: message}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("refusal (-want +got)\n%s", diff)
	}
}

// A host name that the kernel cannot take is refused in the words of the kubelet's event.
func TestHostnames(t *testing.T) {
	tooLong := &Hostnames{Hostname: func(*corev1.Pod) (string, error) { return "", errors.New("failed to construct FQDN") }}
	fits := &Hostnames{Hostname: func(*corev1.Pod) (string, error) { return "web", nil }}
	check(t, tooLong.Admit(podWith()), "FailedCreatePodSandBox", "Failed to create pod sandbox: failed to construct FQDN")
	check(t, tooLong.Admit(podWith(hostNetwork)), "", "")
	check(t, fits.Admit(podWith()), "", "")
}

func port(ip string, protocol corev1.Protocol, number int32) corev1.ContainerPort {
	return corev1.ContainerPort{HostIP: ip, Protocol: protocol, HostPort: number, ContainerPort: 1}
}

func ports(ports ...corev1.ContainerPort) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.Containers[0].Ports = ports }
}

func initPorts(policy *corev1.ContainerRestartPolicy, ports ...corev1.ContainerPort) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.InitContainers = []corev1.Container{{Name: "i", RestartPolicy: policy, Ports: ports}}
	}
}

func TestHostPorts(t *testing.T) {
	const taken = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports: 80/TCP is that of NodeWorkload other, until it is changed or deleted"
	tcp80 := ports(port("", corev1.ProtocolTCP, 80))
	tests := map[string]struct {
		pod, other *corev1.Pod
		want       string
	}{
		"none":                       {pod: podWith(), other: podWith(tcp80)},
		"no host port":               {pod: podWith(ports(port("", "", 0))), other: podWith(ports(port("", "", 0)))},
		"the same":                   {pod: podWith(tcp80), other: podWith(tcp80), want: taken},
		"another":                    {pod: podWith(tcp80), other: podWith(ports(port("", corev1.ProtocolTCP, 81)))},
		"another protocol":           {pod: podWith(tcp80), other: podWith(ports(port("", corev1.ProtocolUDP, 80)))},
		"the default protocol":       {pod: podWith(tcp80), other: podWith(ports(port("", "", 80))), want: taken},
		"two addresses":              {pod: podWith(ports(port("10.0.0.1", "", 80))), other: podWith(ports(port("10.0.0.2", "", 80)))},
		"one address":                {pod: podWith(ports(port("10.0.0.1", "", 80))), other: podWith(ports(port("10.0.0.1", "", 80))), want: taken},
		"one of all addresses":       {pod: podWith(ports(port("10.0.0.1", "", 80))), other: podWith(ports(port("0.0.0.0", "", 80))), want: taken},
		"all addresses where one is": {pod: podWith(tcp80), other: podWith(ports(port("10.0.0.1", "", 80))), want: taken},
		"of the second port":         {pod: podWith(ports(port("", "", 81), port("", "", 80))), other: podWith(tcp80), want: taken},
		"of a sidecar":               {pod: podWith(tcp80), other: podWith(initPorts(new(corev1.ContainerRestartPolicyAlways), port("", "", 80))), want: taken},
		"of an init container":       {pod: podWith(tcp80), other: podWith(initPorts(nil, port("", "", 80)))},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tc.other.Name = "other"
			h := &HostPorts{Workloads: func() []Workload {
				return []Workload{{UID: "other", Has: []*corev1.Pod{podWith(), tc.other}}, {UID: tc.pod.UID, Has: []*corev1.Pod{tc.pod}}}
			}}
			check(t, h.Admit(tc.pod), "NodePorts", tc.want)
		})
	}
}

// Who waits for a host port is told who has it, and what ends the wait.
func TestHoldersOfHostPortsAreNamed(t *testing.T) {
	on := func(name string, number int32) *corev1.Pod {
		pod := podWith(ports(port("", "", number)))
		pod.Namespace, pod.Name, pod.UID = "ns", name, types.UID(name)
		return pod
	}
	foreign := on("secret", 1)
	foreign.Namespace = "another"
	runs := func(pod, asks *corev1.Pod) Workload {
		return Workload{UID: pod.UID, Has: []*corev1.Pod{pod}, Asks: asks}
	}
	const until, inTurn = ", until it is changed or deleted", ", which waits, directly or through others, for a host port of this one: delete one of them, or change one to a free host port first"
	tests := map[string]struct {
		others []Workload
		want   string
	}{
		"one that waits for nothing":    {[]Workload{runs(on("b", 1), nil)}, "1/TCP is that of NodeWorkload b" + until},
		"one that waits for a free one": {[]Workload{runs(on("b", 1), on("b", 9))}, "1/TCP is that of NodeWorkload b" + until},
		"of another namespace":          {[]Workload{runs(foreign, nil)}, "1/TCP is that of a NodeWorkload of another namespace" + until},
		"each other":                    {[]Workload{runs(on("b", 1), on("b", 2))}, "1/TCP is that of NodeWorkload b" + inTurn},
		"in a ring":                     {[]Workload{runs(on("b", 1), on("b", 3)), runs(on("c", 3), on("c", 2))}, "1/TCP is that of NodeWorkload b" + inTurn},
		"a ring beside it":              {[]Workload{runs(on("b", 1), on("b", 3)), runs(on("c", 3), on("c", 1))}, "1/TCP is that of NodeWorkload b" + until},
		"many": {
			[]Workload{runs(on("b", 1), nil), runs(on("c", 1), nil), runs(on("d", 1), nil), runs(on("e", 1), nil), runs(on("f", 1), nil)},
			"1/TCP is that of NodeWorkload b" + until + "; 1/TCP is that of NodeWorkload c" + until + "; 1/TCP is that of NodeWorkload d" + until + "; and 2 more",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			h := &HostPorts{Workloads: func() []Workload { return append(tc.others, runs(on("a", 2), on("a", 1))) }}
			check(t, h.Admit(on("a", 1)), "NodePorts", messageHostPorts+": "+tc.want)
		})
	}
}

// Where it is asked for, a host port that another workload waits for counts as that one's, too.
func TestHostPortsThatOthersAskFor(t *testing.T) {
	asks := podWith(ports(port("", "", 80)))
	asks.Name, asks.UID = "b", "b"
	pod := podWith(ports(port("", "", 80)))
	pod.UID = "a"
	for asked, want := range map[bool]string{
		false: "", true: messageHostPorts + ": 80/TCP is what NodeWorkload b waits for, and is to have first",
	} {
		h := &HostPorts{Asked: asked, Workloads: func() []Workload { return []Workload{{UID: "b", Asks: asks}, {UID: "a", Asks: pod}} }}
		check(t, h.Admit(pod), "NodePorts", want)
	}
}

func profile(kind corev1.AppArmorProfileType, name string) *corev1.AppArmorProfile {
	p := &corev1.AppArmorProfile{Type: kind}
	if name != "" {
		p.LocalhostProfile = &name
	}
	return p
}

func ofPod(p *corev1.AppArmorProfile) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.SecurityContext.AppArmorProfile = p }
}

func ofContainer(p *corev1.AppArmorProfile) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{AppArmorProfile: p}
	}
}

func TestAppArmor(t *testing.T) {
	kernel := map[string]string{appArmorEnabled: "Y\n", appArmorProfiles: "cri-containerd.apparmor.d (enforce)\nsome profile (complain)\n"}
	without := func(file string) map[string]string {
		m := map[string]string{appArmorEnabled: kernel[appArmorEnabled], appArmorProfiles: kernel[appArmorProfiles]}
		delete(m, file)
		return m
	}
	standard, unconfined := profile(corev1.AppArmorProfileTypeRuntimeDefault, ""), profile(corev1.AppArmorProfileTypeUnconfined, "")
	tests := map[string]struct {
		pod    *corev1.Pod
		kernel map[string]string
		want   string
	}{
		"none":                               {pod: podWith(), kernel: map[string]string{}},
		"unconfined":                         {pod: podWith(ofPod(unconfined)), kernel: map[string]string{}},
		"the pod's, which no container uses": {pod: podWith(ofPod(standard), ofContainer(unconfined)), kernel: map[string]string{}},
		"no AppArmor":                        {pod: podWith(ofPod(standard)), kernel: map[string]string{}, want: "Cannot enforce AppArmor: AppArmor is not enabled on the host"},
		"AppArmor is off":                    {pod: podWith(ofContainer(standard)), kernel: map[string]string{appArmorEnabled: "N\n"}, want: "Cannot enforce AppArmor: AppArmor is not enabled on the host"},
		"the runtime's default":              {pod: podWith(ofPod(standard)), kernel: kernel},
		"loaded":                             {pod: podWith(ofPod(profile(corev1.AppArmorProfileTypeLocalhost, "some profile"))), kernel: kernel},
		"not loaded":                         {pod: podWith(ofContainer(profile(corev1.AppArmorProfileTypeLocalhost, "mine"))), kernel: kernel, want: `Cannot enforce AppArmor: profile "mine" is not loaded`},
		"of the pod, not loaded":             {pod: podWith(ofPod(profile(corev1.AppArmorProfileTypeLocalhost, "mine"))), kernel: kernel, want: `Cannot enforce AppArmor: profile "mine" is not loaded`},
		"without a name":                     {pod: podWith(ofPod(profile(corev1.AppArmorProfileTypeLocalhost, " "))), kernel: kernel, want: "Cannot enforce AppArmor: invalid empty AppArmor profile name"},
		"profiles that cannot be read":       {pod: podWith(ofPod(profile(corev1.AppArmorProfileTypeLocalhost, "mine"))), kernel: without(appArmorProfiles)},
		"a kernel that cannot be read":       {pod: podWith(ofPod(profile(corev1.AppArmorProfileTypeLocalhost, "mine"))), kernel: nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			a := &AppArmor{ReadFile: func(path string) ([]byte, error) {
				content, found := tc.kernel[path]
				switch {
				case tc.kernel == nil:
					return nil, errors.New("input/output error")
				case !found:
					return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
				}
				return []byte(content), nil
			}}
			check(t, a.Admit(tc.pod), "AppArmor", tc.want)
		})
	}
}

func TestFeatures(t *testing.T) {
	strict := func(pod *corev1.Pod) {
		pod.Spec.SecurityContext.SupplementalGroupsPolicy = new(corev1.SupplementalGroupsPolicyStrict)
	}
	users := func(pod *corev1.Pod) { pod.Spec.HostUsers = new(false) }
	class := func(pod *corev1.Pod) { pod.Spec.RuntimeClassName = new("kata") }
	mount := func(mode corev1.RecursiveReadOnlyMode) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", ReadOnly: true, RecursiveReadOnly: &mode}}
		}
	}
	able := HandlerFeatures{UserNamespaces: true, RecursiveReadOnly: true}
	all := RuntimeFeatures{GroupsPolicy: true, Handlers: map[string]HandlerFeatures{"": able, "kata": able}}
	old := RuntimeFeatures{Handlers: map[string]HandlerFeatures{"": {}, "kata": {}}}
	tests := map[string]struct {
		pod     *corev1.Pod
		runtime RuntimeFeatures
		err     error
		reason  string
		want    string
	}{
		"nothing":           {pod: podWith()},
		"all that there is": {pod: podWith(strict, users, class, mount(corev1.RecursiveReadOnlyEnabled)), runtime: all},
		"strict groups":     {pod: podWith(strict), runtime: old, reason: "SupplementalGroupsPolicyNotSupported", want: "SupplementalGroupsPolicy=Strict is not supported in this node"},
		"merged groups": {pod: podWith(func(pod *corev1.Pod) {
			pod.Spec.SecurityContext.SupplementalGroupsPolicy = new(corev1.SupplementalGroupsPolicyMerge)
		}), runtime: old},
		"users":                        {pod: podWith(users), runtime: old, reason: "PodFeatureUnsupported", want: "can't set `spec.hostUsers: false`, runtime does not support user namespaces"},
		"users of a class":             {pod: podWith(users, class), runtime: old, reason: "PodFeatureUnsupported", want: "can't set `spec.hostUsers: false`, RuntimeClass handler \"kata\" does not support user namespaces"},
		"users, of a runtime of old":   {pod: podWith(users), reason: "PodFeatureUnsupported", want: "can't set `spec.hostUsers: false`, runtime does not support user namespaces"},
		"the node's users":             {pod: podWith(func(pod *corev1.Pod) { pod.Spec.HostUsers = new(true) }), runtime: old},
		"recursive mounts":             {pod: podWith(mount(corev1.RecursiveReadOnlyEnabled)), runtime: old, reason: "PodFeatureUnsupported", want: `volume "v" requested recursive read-only mode, but it is not supported by the runtime`},
		"recursive mounts if possible": {pod: podWith(mount(corev1.RecursiveReadOnlyIfPossible)), runtime: old},
		"unknown handler":              {pod: podWith(class), runtime: RuntimeFeatures{Handlers: map[string]HandlerFeatures{"": able}}, reason: "RuntimeHandlerUnknown", want: `no runtime for "kata" is configured`},
		"handler of a runtime of old":  {pod: podWith(class)},
		"no answer":                    {pod: podWith(strict, users, class), err: errors.New("away")},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := &Features{
				Runtime: func() (RuntimeFeatures, error) { return tc.runtime, tc.err },
				Handler: func(pod *corev1.Pod) (string, error) {
					if pod.Spec.RuntimeClassName == nil {
						return "", nil
					}
					return *pod.Spec.RuntimeClassName, nil
				},
			}
			check(t, f.Admit(tc.pod), tc.reason, tc.want)
		})
	}
}

// The first refusal counts.
func TestHandlers(t *testing.T) {
	says := func(reason string) Handler {
		return func(*corev1.Pod) *plan.Refusal { return &plan.Refusal{Reason: reason, Message: "m"} }
	}
	admits := func(*corev1.Pod) *plan.Refusal { return nil }
	check(t, Handlers{admits, says("first"), says("second")}.Admit(podWith()), "first", "m")
	check(t, Handlers{admits, admits}.Admit(podWith()), "", "")
}
