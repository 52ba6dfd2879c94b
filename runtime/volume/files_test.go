// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/managedworkload/managedworkload/api/objects"
	"github.com/managedworkload/managedworkload/runtime/hostfs"
	"github.com/managedworkload/managedworkload/runtime/hostfs/mounttest"
	received "github.com/managedworkload/managedworkload/runtime/objects"
)

// fakeObjects is an API server of one namespace, "ns".
type fakeObjects struct {
	mu      sync.Mutex
	data    map[objects.Ref]map[string]string
	away    bool
	reads   int
	starts  int           // tokens asked for at starts
	waiting chan struct{} // a token is given out when it is closed
	renewed string        // what newer tokens have on top
}

var errAway = fmt.Errorf("it %w", received.ErrNotReceived)

func newObjects() *fakeObjects {
	return &fakeObjects{data: map[objects.Ref]map[string]string{}}
}

func (f *fakeObjects) set(kind objects.Kind, name string, pairs ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	data := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		data[pairs[i]] = pairs[i+1]
	}
	f.data[objects.Ref{Kind: kind, Name: name}] = data
}

func (f *fakeObjects) remove(kind objects.Kind, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.data, objects.Ref{Kind: kind, Name: name})
}

func (f *fakeObjects) setAway(away bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.away = away
}

func (f *fakeObjects) read(kind objects.Kind, namespace, name string) (map[string]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	if f.away {
		return nil, errAway
	}
	data, ok := f.data[objects.Ref{Kind: kind, Name: name}]
	if !ok || namespace != "ns" {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: strings.ToLower(string(kind))}, name)
	}
	return data, nil
}

func (f *fakeObjects) ConfigMap(namespace, name string) (*corev1.ConfigMap, error) {
	data, err := f.read(objects.ConfigMap, namespace, name)
	return &corev1.ConfigMap{Data: data}, err
}

func (f *fakeObjects) Secret(namespace, name string) (*corev1.Secret, error) {
	data, err := f.read(objects.Secret, namespace, name)
	secret := &corev1.Secret{Data: map[string][]byte{}}
	for key, text := range data {
		secret.Data[key] = []byte(text)
	}
	return secret, err
}

func (f *fakeObjects) StartToken(ctx context.Context, pod *corev1.Pod, ask objects.Token) (string, error) {
	f.mu.Lock()
	f.starts++
	f.mu.Unlock()
	return f.Token(ctx, pod, ask)
}

func (f *fakeObjects) Token(ctx context.Context, pod *corev1.Pod, ask objects.Token) (string, error) {
	f.mu.Lock()
	waiting := f.waiting
	f.mu.Unlock()
	if waiting != nil {
		select {
		case <-waiting:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	account := ""
	if pod.Spec.ServiceAccountName != "" {
		account = " as " + pod.Spec.ServiceAccountName
	}
	return "token of " + pod.Name + account + " for " + ask.Audience + f.renewed, nil
}

func (f *fakeObjects) readCount() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reads
}

func managerOf(t *testing.T, api *fakeObjects) *Manager {
	t.Helper()
	return newManager(t, func(c *Config) {
		c.Objects = api
		c.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	})
}

func configMapVolume(name, object string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: object},
	}}}
}

func secretVolume(name, object string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: object}}}
}

func fieldsVolume(name string, items ...corev1.DownwardAPIVolumeFile) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: items}}}
}

func tokenVolume(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", Audience: "vault"}}},
	}}}
}

var (
	labelsFile = corev1.DownwardAPIVolumeFile{Path: "labels", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels"}}
	cpuFile    = corev1.DownwardAPIVolumeFile{Path: "cpu", ResourceFieldRef: &corev1.ResourceFieldSelector{ContainerName: "c", Resource: "limits.cpu"}}
)

// shown are the files of a volume.
func shown(t *testing.T, m *Manager, pod *corev1.Pod, name string) map[string]string {
	t.Helper()
	dir, ok := m.Path(pod, name)
	if !ok {
		t.Fatalf("no volume %q", name)
	}
	found := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), "..") {
			found[entry.Name()] = read(t, filepath.Join(dir, entry.Name()))
		}
	}
	return found
}

// Each kind has the kubelet's place and mode, and nothing of it is on a disk.
func TestVolumesOfFiles(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	api := newObjects()
	api.set(objects.ConfigMap, "conf", "a", "1")
	api.set(objects.Secret, "tls", "key", "2")
	m := managerOf(t, api)
	pod := withVolumes(configMapVolume("conf", "conf"), secretVolume("tls", "tls"), fieldsVolume("fields", labelsFile, cpuFile), tokenVolume("token"), emptyDirVolume("e", "", ""))
	pod.Labels = map[string]string{"app": "web"}
	prepare(t, m, pod)
	for name, want := range map[string]struct {
		place string
		mode  fs.FileMode
		files map[string]string
	}{
		"conf":   {"configmap", 0o777, map[string]string{"a": "1"}},
		"tls":    {"secret", 0o777 | fs.ModeSticky, map[string]string{"key": "2"}},
		"fields": {"downward-api", 0o777 | fs.ModeSticky, map[string]string{"labels": `app="web"`, "cpu": "4"}},
		"token":  {"projected", 0o777 | fs.ModeSticky, map[string]string{"token": "token of web for vault"}},
	} {
		dir, _ := m.Path(pod, name)
		if place := filepath.Join(m.podDir(pod.UID), "volumes/kubernetes.io~"+want.place, name); dir != place {
			t.Errorf("%s lies on %s, want %s", name, dir, place)
		}
		if diff := cmp.Diff(want.files, shown(t, m, pod, name)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if info, err := os.Stat(dir); err != nil || info.Mode() != fs.ModeDir|want.mode || tmpfsBytes(t, dir) != filesSize {
			t.Errorf("%s: %v, %v, tmpfs of %d bytes", name, info.Mode(), err, tmpfsBytes(t, dir))
		}
		if !m.ReadOnly(pod, name) || m.ReadOnly(pod, "e") {
			t.Errorf("%s can be written to, or the emptyDir cannot", name)
		}
	}
	mounttest.Must(t, hostfs.NewPatience(time.Minute).DetachBelow(t.Context(), m.podDir(pod.UID)))
	err := filepath.WalkDir(m.podDir(pod.UID), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && entry.Name() != "ready" && entry.Name() != "source" {
			t.Errorf("%s is on the disk", path)
		}
		return err
	})
	mounttest.Must(t, err)
}

// A pod waits for what it refers to, in the kubelet's words; what is missing holds up
// none of its other volumes, and comes when it is there.
func TestMissingObjects(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	api := newObjects()
	api.set(objects.Secret, "tls", "key", "2")
	m := managerOf(t, api)
	pod := withVolumes(configMapVolume("conf", "conf"), secretVolume("tls", "tls"))
	err := m.WaitForMount(t.Context(), pod)
	if want := `MountVolume.SetUp failed for volume "conf" : configmap "conf" not found`; err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
	if got := shown(t, m, pod, "tls"); got["key"] != "2" {
		t.Errorf("the other volume has %v", got)
	}
	if dir, _ := m.Path(pod, "conf"); exists(dir) {
		t.Error("a volume without its object is there")
	}
	api.set(objects.ConfigMap, "conf", "a", "1")
	prepare(t, m, pod)
	if got := shown(t, m, pod, "conf"); got["a"] != "1" {
		t.Errorf("the volume has %v", got)
	}
}

// What starts again has the files from before where an object was deleted or has lost a key, also
// in a shim that has not received it yet. A volume that is to show something else waits.
func TestFilesOutliveTheirObject(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	api := newObjects()
	api.set(objects.ConfigMap, "conf", "a", "1")
	m := managerOf(t, api)
	pod := withVolumes(configMapVolume("v", "conf"))
	pod.Spec.Volumes[0].ConfigMap.Items = []corev1.KeyToPath{{Key: "a", Path: "a"}}
	prepare(t, m, pod)
	keeps := func(when string) {
		t.Helper()
		if err := m.WaitForMount(t.Context(), pod); err != nil {
			t.Errorf("%s: %v", when, err)
		}
		if got := shown(t, m, pod, "v")["a"]; got != "1" {
			t.Errorf("%s: the volume has %q", when, got)
		}
	}
	api.setAway(true)
	keeps("not received")
	api.setAway(false)
	api.set(objects.ConfigMap, "conf", "b", "2")
	keeps("without the key")
	api.remove(objects.ConfigMap, "conf")
	keeps("deleted")
	other := pod.DeepCopy()
	other.Spec.Volumes[0].ConfigMap.Items[0].Path = "c"
	if err := m.WaitForMount(t.Context(), other); err == nil {
		t.Error("a volume that is to show another path is ready")
	}
}

// A shim that no objects reach says so.
func TestWithoutObjects(t *testing.T) {
	err := newManager(t, nil).WaitForMount(t.Context(), withVolumes(secretVolume("v", "s"), tokenVolume("t")))
	if err == nil || !strings.Contains(err.Error(), errNoObjects.Error()) {
		t.Errorf("error %v", err)
	}
}

// fsGroup owns the files before a container sees them, and may read them.
func TestGroupOfFiles(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	api := newObjects()
	api.set(objects.Secret, "tls", "key", "2")
	m := managerOf(t, api)
	pod := withVolumes(secretVolume("tls", "tls"), tokenVolume("token"))
	pod.Spec.Volumes[0].Secret.DefaultMode = new(int32(0o400))
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: new(int64(2000)), RunAsUser: new(int64(1000))}
	prepare(t, m, pod)
	for path, want := range map[string]struct {
		mode fs.FileMode
		uid  uint32
	}{
		"tls/key": {0o440, 0}, "token/token": {0o640, 1000}, "tls": {fs.ModeDir | fs.ModeSticky | fs.ModeSetgid | 0o777, 0},
	} {
		name, file := filepath.Split(path)
		if name == "" {
			name, file = file, ""
		}
		dir, _ := m.Path(pod, filepath.Clean(name))
		info, err := os.Stat(filepath.Join(dir, file))
		mounttest.Must(t, err)
		var stat unix.Stat_t
		mounttest.Must(t, unix.Stat(filepath.Join(dir, file), &stat))
		if info.Mode() != want.mode || stat.Uid != want.uid || stat.Gid != 2000 {
			t.Errorf("%s: %v of %d:%d, want %v of %d:2000", path, info.Mode(), stat.Uid, stat.Gid, want.mode, want.uid)
		}
	}
}

// The files of a pod have a bound in sum; a volume that does not fit is named, and those
// before it are there.
func TestBoundOfFiles(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	api := newObjects()
	api.set(objects.ConfigMap, "big", "a", strings.Repeat("x", 20<<20))
	api.set(objects.ConfigMap, "small", "a", "1")
	m := managerOf(t, api)
	pod := withVolumes(configMapVolume("one", "big"), configMapVolume("two", "big"), configMapVolume("three", "small"))
	err := m.WaitForMount(t.Context(), pod)
	const want = `MountVolume.SetUp failed for volume "two" : its files take 20Mi of memory, and those of the volumes before it 20Mi: a pod may have 32Mi`
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
	if len(shown(t, m, pod, "one")) != 1 || len(shown(t, m, pod, "two")) != 0 || len(shown(t, m, pod, "three")) != 1 {
		t.Error("want the first and the third")
	}
	// Its own tmpfs has room for two versions of what is allowed.
	api.set(objects.ConfigMap, "big", "a", strings.Repeat("x", 31<<20))
	alone := withVolumes(configMapVolume("one", "big"))
	prepare(t, m, alone)
	api.set(objects.ConfigMap, "big", "a", strings.Repeat("y", 31<<20))
	prepare(t, m, alone)
	if got := shown(t, m, alone, "one")["a"]; got[0] != 'y' {
		t.Error("the second version is not there")
	}
}

// What is mounted below a volume of files has a directory to be mounted on.
func TestNestedMountpoints(t *testing.T) {
	pod := testPod(func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/etc"}, {Name: "w", MountPath: "/etc/init"}}}}
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{
			{Name: "w", MountPath: "/data/sub/deep"}, {Name: "w", MountPath: "/data/sub"}, {Name: "v", MountPath: "/data/"},
			{Name: "w", MountPath: "/data-2/x"}, {Name: "w", MountPath: "/data/sub-2"},
		}
	})
	want := []string{"init", "sub", "sub-2"}
	if diff := cmp.Diff(want, nestedMountpoints(pod, "v")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := nestedMountpoints(pod, "x"); len(got) > 0 {
		t.Errorf("%v for a volume that is not mounted", got)
	}
}

// A subPath shows one file, and keeps its version: it is resolved once for each container.
func TestSubPathOfFiles(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	api := newObjects()
	api.set(objects.ConfigMap, "conf", "a", "1")
	m := managerOf(t, api)
	pod := withVolumes(configMapVolume("conf", "conf"))
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "conf", SubPath: "a"}}
	prepare(t, m, pod)
	target := bind(t, m, pod, "a", corev1.MountPropagationNone)
	api.set(objects.ConfigMap, "conf", "a", "2")
	prepare(t, m, pod)
	if got := read(t, target); got != "1" {
		t.Errorf("the subPath of a running container has %q", got)
	}
	if got := read(t, bind(t, m, pod, "a", corev1.MountPropagationNone)); got != "2" {
		t.Errorf("the subPath of a new container has %q", got)
	}
}

// Volumes that the template loses go, also those that are of another kind now; the end of
// the pod takes all, for a process that does not know them too.
func TestFilesAreTornDown(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	api := newObjects()
	api.set(objects.ConfigMap, "conf", "a", "1")
	api.set(objects.Secret, "tls", "key", "2")
	m := managerOf(t, api)
	pod := withVolumes(configMapVolume("conf", "conf"), secretVolume("v", "tls"), tokenVolume("token"))
	prepare(t, m, pod)
	now := withVolumes(configMapVolume("conf", "conf"), configMapVolume("v", "conf"))
	prepare(t, m, now)
	places := func(names ...string) []string {
		var there []string
		for _, name := range names {
			for _, of := range []string{volumesDir, marksDir} {
				if path := filepath.Join(m.podDir(pod.UID), of, "kubernetes.io~"+name); exists(path) {
					there = append(there, of+"/"+name)
				}
			}
		}
		return there
	}
	if got := places("secret/v", "projected/token"); len(got) > 0 {
		t.Errorf("left: %v", got)
	}
	if got := shown(t, m, now, "v"); got["a"] != "1" {
		t.Errorf("the volume of another kind has %v", got)
	}
	prepare(t, m, pod)
	other := newManager(t, func(c *Config) { c.RootDir = m.config.RootDir })
	mounttest.Must(t, other.Unmount(t.Context(), pod.UID))
	if got := places("configmap", "secret", "projected", "downward-api"); len(got) > 0 {
		t.Errorf("left: %v", got)
	}
	if mounts, err := hostfs.MountsBelow(m.podDir(pod.UID)); err != nil || len(mounts) > 0 {
		t.Errorf("mounts %v, %v", mounts, err)
	}
}

// Files never come to what lies under a mount that is not there, or not the shim's.
func TestFilesNeedTheirTmpfs(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	api := newObjects()
	api.set(objects.Secret, "tls", "key", "2")
	m := managerOf(t, api)
	pod := withVolumes(secretVolume("tls", "tls"))
	prepare(t, m, pod)
	dir, _ := m.Path(pod, "tls")
	mounttest.Must(t, unix.Unmount(dir, 0))
	prepare(t, m, pod)
	if got := shown(t, m, pod, "tls"); got["key"] != "2" || tmpfsBytes(t, dir) == 0 {
		t.Errorf("files %v on a tmpfs of %d bytes", got, tmpfsBytes(t, dir))
	}
	mounttest.Must(t, unix.Unmount(dir, 0))
	other := t.TempDir()
	mounttest.Must(t, unix.Mount(other, dir, "", unix.MS_BIND, ""))
	err := m.WaitForMount(t.Context(), pod)
	if err == nil || !strings.Contains(err.Error(), "a mount that the shim did not make is in its place") {
		t.Errorf("error %v", err)
	}
	root, err := os.OpenRoot(other)
	mounttest.Must(t, err)
	defer root.Close() //nolint:errcheck // only read
	if err := inMemory(root); err == nil {
		t.Error("a directory on the disk passes for a tmpfs")
	}
	if entries, _ := os.ReadDir(other); len(entries) > 0 {
		t.Errorf("written to a foreign mount: %v", entries)
	}
}
