// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package poddir

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

func TestContainerOptions(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	m := newManager(t, nil)
	toContainer := corev1.MountPropagationHostToContainer
	pod := withVolumes(hostPathVolume("host", "/proc", ""), emptyDirVolume("scratch", "", ""))
	c := &pod.Spec.Containers[0]
	c.Command, c.Args = []string{"run", "$(A)"}, []string{"--pod=$(POD)", "$$(A)"}
	c.Env = []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "POD", ValueFrom: fieldRef("metadata.name")}}
	c.TerminationMessagePath = "/dev/termination-log"
	c.VolumeMounts = []corev1.VolumeMount{
		{Name: "scratch", MountPath: "relative/path"},
		{Name: "host", MountPath: "/host/proc", ReadOnly: true, MountPropagation: &toContainer},
	}
	prepare(t, m, pod)
	got, err := m.ContainerOptions(t.Context(), pod, c, []string{"10.1.0.2"}, 3)
	if err != nil {
		t.Fatal(err)
	}
	want := Options{
		Command: []string{"run", "1"},
		Args:    []string{"--pod=web", "$(A)"},
		Env:     []EnvVar{{"A", "1"}, {"POD", "web"}},
		Mounts: []Mount{
			{ContainerPath: "/relative/path", HostPath: emptyDir(m, pod, "scratch"), Propagation: corev1.MountPropagationNone},
			{ContainerPath: "/host/proc", HostPath: "/proc", ReadOnly: true, Propagation: corev1.MountPropagationHostToContainer},
			{ContainerPath: "/etc/hosts", HostPath: filepath.Join(m.podDir(pod.UID), "etc-hosts"), Propagation: corev1.MountPropagationNone},
			{ContainerPath: "/dev/termination-log", HostPath: got.TerminationLog, Propagation: corev1.MountPropagationNone},
		},
		TerminationLog: got.TerminationLog,
		LogPath:        "c/3.log",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("options (-want +got):\n%s", diff)
	}
	if dir, name := filepath.Split(got.TerminationLog); dir != filepath.Join(m.podDir(pod.UID), "containers/c")+"/" || name != "3.message" {
		t.Errorf("termination message file %q", got.TerminationLog)
	}
	if info, err := os.Stat(got.TerminationLog); err != nil || info.Mode() != 0o666 {
		t.Errorf("termination message file: %v, %v, want mode 0666", info, err)
	}
	if !exists(filepath.Join(m.LogDirectory(pod), "c")) || filepath.Base(m.LogDirectory(pod)) != "ns_web_0f1c-22" {
		t.Errorf("log directory %q", m.LogDirectory(pod))
	}
	again, err := m.ContainerOptions(t.Context(), pod, c, nil, 4)
	if err != nil || again.TerminationLog == got.TerminationLog {
		t.Errorf("a second instance shares the termination message file (%v)", err)
	}
}

func TestContainerOptionsErrors(t *testing.T) {
	enabled, odd := corev1.RecursiveReadOnlyEnabled, corev1.RecursiveReadOnlyMode("Odd")
	bidirectional, oddPropagation := corev1.MountPropagationBidirectional, corev1.MountPropagationMode("Odd")
	tests := map[string]struct {
		mount corev1.VolumeMount
		want  string
	}{
		"no such volume":           {corev1.VolumeMount{Name: "x"}, `cannot find volume "x" to mount into container "c"`},
		"absolute subPath":         {corev1.VolumeMount{Name: "v", SubPath: "/etc"}, "error SubPath `/etc` must not be an absolute path"},
		"subPath with steps back":  {corev1.VolumeMount{Name: "v", SubPath: "a/../../b"}, "must not contain '..'"},
		"steps back in a variable": {corev1.VolumeMount{Name: "v", SubPathExpr: "$(UP)"}, "must not contain '..'"},
		"subPathExpr unknown":      {corev1.VolumeMount{Name: "v", SubPathExpr: "$(B)/$(A)/$(B)"}, "missing value for A, B"},
		"subPath of a file":        {corev1.VolumeMount{Name: "file", SubPath: "a"}, `failed to prepare subPath for volumeMount "file" of container "c"`},
		"propagation":              {corev1.VolumeMount{Name: "v", MountPropagation: &oddPropagation}, `invalid MountPropagation mode: "Odd"`},
		"recursive, not read-only": {corev1.VolumeMount{Name: "v", RecursiveReadOnly: &enabled}, "but it is not read-only"},
		"recursive, propagated":    {corev1.VolumeMount{Name: "v", ReadOnly: true, RecursiveReadOnly: &enabled, MountPropagation: &bidirectional}, "not compatible with propagation"},
		"recursive, unsupported":   {corev1.VolumeMount{Name: "v", ReadOnly: true, RecursiveReadOnly: &enabled}, "not supported by the runtime"},
		"recursive, unknown":       {corev1.VolumeMount{Name: "v", ReadOnly: true, RecursiveReadOnly: &odd}, `unknown recursive read-only mode "Odd"`},
	}
	file := filepath.Join(t.TempDir(), "f")
	write(t, file, "")
	m := newManager(t, nil)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pod := withVolumes(emptyDirVolume("v", "", ""), hostPathVolume("file", file, corev1.HostPathFile))
			prepare(t, m, pod)
			c := &pod.Spec.Containers[0]
			c.Env = []corev1.EnvVar{{Name: "UP", Value: ".."}}
			tt.mount.MountPath = "/mnt"
			c.VolumeMounts = []corev1.VolumeMount{tt.mount}
			if _, err := m.ContainerOptions(t.Context(), pod, c, nil, 0); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

func TestContainerNameIsNoPath(t *testing.T) {
	m, pod := newManager(t, nil), testPod(nil)
	if _, err := m.ContainerOptions(t.Context(), pod, &corev1.Container{Name: "../../x"}, nil, 0); err == nil {
		t.Error("no error")
	}
}

// Containers cannot write to files of ConfigMaps, Secrets, tokens and fields of the pod,
// whatever their mounts say. (volume.Attributes of the kubelet's plugins)
func TestFilesOfVolumesAreReadOnly(t *testing.T) {
	sources := map[string]corev1.VolumeSource{
		"configMap":   {ConfigMap: &corev1.ConfigMapVolumeSource{}},
		"secret":      {Secret: &corev1.SecretVolumeSource{}},
		"downwardAPI": {DownwardAPI: &corev1.DownwardAPIVolumeSource{}},
		"projected":   {Projected: &corev1.ProjectedVolumeSource{}},
		"emptyDir":    {EmptyDir: &corev1.EmptyDirVolumeSource{}},
	}
	sources["image"] = corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "files:1"}}
	m, pod := newManager(t, nil), testPod(nil)
	for name, source := range sources {
		pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: source}}
		c := &corev1.Container{Name: "c", VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}}
		options, err := m.ContainerOptions(t.Context(), pod, c, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := options.Mounts[0].ReadOnly; got != (name != "emptyDir") {
			t.Errorf("%s is read-only: %v", name, got)
		}
	}
}

// The runtime mounts an image, whole or in part; no part of it is sought on the node.
func TestMountsOfImages(t *testing.T) {
	m, pod := newManager(t, nil), testPod(nil)
	pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "files:1"}}}}
	for _, tt := range []struct {
		mount corev1.VolumeMount
		want  Mount
		fails string
	}{
		{mount: corev1.VolumeMount{MountPath: "/v"}, want: Mount{ContainerPath: "/v", Image: "v"}},
		{mount: corev1.VolumeMount{MountPath: "/v", SubPath: "a/b"}, want: Mount{ContainerPath: "/v", Image: "v", ImageSubPath: "a/b"}},
		{mount: corev1.VolumeMount{MountPath: "/v", SubPathExpr: "$(A)/b"}, want: Mount{ContainerPath: "/v", Image: "v", ImageSubPath: "1/b"}},
		{mount: corev1.VolumeMount{MountPath: "/v", SubPath: "../b"}, fails: "unable to provision SubPath `../b`: must not contain '..'"},
	} {
		tt.mount.Name = "v"
		c := &corev1.Container{Name: "c", Env: []corev1.EnvVar{{Name: "A", Value: "1"}}, VolumeMounts: []corev1.VolumeMount{tt.mount}}
		options, err := m.ContainerOptions(t.Context(), pod, c, nil, 0)
		if tt.fails != "" {
			if err == nil || err.Error() != tt.fails {
				t.Errorf("error %v, want %q", err, tt.fails)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		tt.want.ReadOnly, tt.want.Propagation = true, corev1.MountPropagationNone
		if options.Mounts[0] != tt.want {
			t.Errorf("mount %+v, want %+v", options.Mounts[0], tt.want)
		}
	}
}

func TestRecursiveReadOnly(t *testing.T) {
	modes := map[corev1.RecursiveReadOnlyMode][2]bool{ // without, with support
		corev1.RecursiveReadOnlyDisabled:   {false, false},
		corev1.RecursiveReadOnlyIfPossible: {false, true},
	}
	for mode, want := range modes {
		for i, supported := range []bool{false, true} {
			m := newManager(t, nil)
			m.SetRecursiveReadOnly(supported)
			got, err := m.recursiveReadOnly(&corev1.VolumeMount{ReadOnly: true, RecursiveReadOnly: &mode})
			if err != nil || got != want[i] {
				t.Errorf("%s, supported %v: %v, %v, want %v", mode, supported, got, err, want[i])
			}
		}
	}
}

func TestHosts(t *testing.T) {
	node := read(t, "/etc/hosts")
	aliases := []corev1.HostAlias{{IP: "10.9.9.9", Hostnames: []string{"a", "b"}}}
	const tail = "\n# Entries added by HostAliases.\n10.9.9.9\ta\tb\n"
	tests := map[string]struct {
		change func(*corev1.Pod)
		ips    []string
		want   string // empty: no mount
	}{
		"pod network": {func(*corev1.Pod) {}, []string{"10.1.0.2", "fd00::2"}, hostsHeader + hostsLocal + "10.1.0.2\tweb\nfd00::2\tweb\n"},
		"subdomain and aliases": {
			func(p *corev1.Pod) { p.Spec.Subdomain = "sub"; p.Spec.HostAliases = aliases }, []string{"10.1.0.2"},
			hostsHeader + hostsLocal + "10.1.0.2\tweb.sub.ns.svc.cluster.local\tweb\n" + tail,
		},
		"no IP yet":    {func(*corev1.Pod) {}, nil, ""},
		"host network": {func(p *corev1.Pod) { p.Spec.HostNetwork = true; p.Spec.HostAliases = aliases }, nil, hostsHeaderHostNetwork + node + tail},
		"a mount of its own": {
			func(p *corev1.Pod) {
				p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/etc/hosts"}}
			}, []string{"10.1.0.2"}, "",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m, pod := newManager(t, nil), testPod(tt.change)
			prepare(t, m, pod)
			mount, err := m.hostsMount(pod, &pod.Spec.Containers[0], tt.ips)
			if err != nil || (mount != nil) != (tt.want != "") {
				t.Fatalf("mount %v, %v, want one: %v", mount, err, tt.want != "")
			}
			if mount == nil {
				return
			}
			if diff := cmp.Diff(tt.want, read(t, mount.HostPath)); diff != "" {
				t.Errorf("hosts file (-want +got):\n%s", diff)
			}
			if info, err := os.Stat(mount.HostPath); err != nil || info.Mode() != 0o644 {
				t.Errorf("%v, %v, want mode 0644", info, err)
			}
		})
	}
}

func TestHostsFileStaysTheSameFile(t *testing.T) {
	m, pod := newManager(t, nil), testPod(nil)
	prepare(t, m, pod)
	var inodes [2]uint64
	for i, ip := range []string{"10.1.0.2", "10.1.0.3"} {
		mount, err := m.hostsMount(pod, &pod.Spec.Containers[0], []string{ip})
		if err != nil {
			t.Fatal(err)
		}
		var stat unix.Stat_t
		if err := unix.Stat(mount.HostPath, &stat); err != nil {
			t.Fatal(err)
		}
		inodes[i] = stat.Ino
	}
	if inodes[0] != inodes[1] {
		t.Error("running containers would keep the old file")
	}
}

// subPathOptions mounts volume v with the subPath and returns the host path.
func subPathOptions(t *testing.T, m *Manager, pod *corev1.Pod, subPath string) string {
	t.Helper()
	c := &pod.Spec.Containers[0]
	c.VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/mnt", SubPath: subPath}}
	options, err := m.ContainerOptions(t.Context(), pod, c, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	return options.Mounts[0].HostPath
}

func TestSubPath(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	m, pod := newManager(t, nil), withVolumes(emptyDirVolume("v", "", ""))
	asRoot(t, m, pod)
	prepare(t, m, pod)
	volume := emptyDir(m, pod, "v")

	path := subPathOptions(t, m, pod, "a/b")
	if want := filepath.Join(m.podDir(pod.UID), "volume-subpaths/v/c/0"); path != want {
		t.Fatalf("host path %q, want %q", path, want)
	}
	write(t, filepath.Join(path, "f"), "x")
	if read(t, filepath.Join(volume, "a/b/f")) != "x" {
		t.Error("the mount does not lead into the volume")
	}
	if info, err := os.Stat(filepath.Join(volume, "a/b")); err != nil || info.Mode() != fs.ModeDir|0o777 {
		t.Errorf("%v, %v, want the mode of the volume", info, err)
	}
	// Another instance may have another path; a file can be mounted too.
	if path := subPathOptions(t, m, pod, "a/b/f"); read(t, path) != "x" {
		t.Error("the file is not mounted")
	}
	if err := m.Remove(t.Context(), IdentityOf(pod)); err != nil {
		t.Errorf("remove: %v", err)
	}
}

func TestSubPathDoesNotLeaveTheVolume(t *testing.T) {
	outside := t.TempDir()
	write(t, filepath.Join(outside, "secret"), "secret")
	tests := map[string]struct{ link, to, subPath string }{
		"an absolute link":       {"escape", outside, "escape"},
		"a relative link":        {"escape", "../../../../../../../../../../../.." + outside, "escape"},
		"a link on the way":      {"escape", filepath.Dir(outside), "escape/" + filepath.Base(outside)},
		"a link to a proc magic": {"escape", "/proc/self/root" + outside, "escape"},
	}
	for _, kind := range []string{"emptyDir", "hostPath"} {
		for name, tt := range tests {
			t.Run(kind+" "+name, func(t *testing.T) {
				m := newManager(t, nil)
				volume := filepath.Join(t.TempDir(), "volume")
				pod := withVolumes(hostPathVolume("v", volume, corev1.HostPathDirectoryOrCreate))
				if kind == "emptyDir" {
					pod = withVolumes(emptyDirVolume("v", "", ""))
					volume = emptyDir(m, pod, "v")
				}
				asRoot(t, m, pod)
				prepare(t, m, pod)
				if err := os.Symlink(tt.to, filepath.Join(volume, tt.link)); err != nil {
					t.Fatal(err)
				}
				c := &pod.Spec.Containers[0]
				c.VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/mnt", SubPath: tt.subPath}}
				options, err := m.ContainerOptions(t.Context(), pod, c, nil, 0)
				if err == nil && exists(filepath.Join(options.Mounts[0].HostPath, "secret")) {
					t.Error("the link leads out of the volume")
				}
			})
		}
	}
}

// The files of a crash loop are bounded, and those of the latest instances stay: also
// where the node's clock was set back, so that the latest look like the oldest, and
// where a start fails again and again.
func TestTerminationLogsAreBounded(t *testing.T) {
	m, pod := newManager(t, nil), testPod(nil)
	prepare(t, m, pod)
	start := func(restartCount int) string {
		t.Helper()
		options, err := m.ContainerOptions(t.Context(), pod, &pod.Spec.Containers[0], nil, restartCount)
		if err != nil {
			t.Fatal(err)
		}
		return options.TerminationLog
	}
	pod.Spec.Containers[0].TerminationMessagePath = "/dev/termination-log"
	last := ""
	for i := range keptTerminationLogs + 5 {
		file := start(i)
		if last != "" && !exists(last) {
			t.Fatal("the file of the instance before is gone")
		}
		at := time.Unix(int64(1000-i), 0)
		if err := os.Chtimes(file, at, at); err != nil {
			t.Fatal(err)
		}
		last = file
	}
	for range 2 * keptTerminationLogs { // starts that fail
		start(keptTerminationLogs + 5)
	}
	if !exists(last) {
		t.Error("the file of the last instance is gone after starts that failed")
	}
	entries, err := os.ReadDir(filepath.Dir(last))
	if err != nil || len(entries) != keptTerminationLogs {
		t.Errorf("%d files, %v, want %d", len(entries), err, keptTerminationLogs)
	}
	start(0) // the runtime has lost all containers, and the logs are gone
	if entries, err = os.ReadDir(filepath.Dir(last)); err != nil || len(entries) != 1 {
		t.Errorf("%d files, %v, want one: a later instance has none of its own", len(entries), err)
	}
}
