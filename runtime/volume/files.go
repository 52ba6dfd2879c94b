// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/objects"
	"github.com/managedworkload/managedworkload/runtime/atomicfiles"
	"github.com/managedworkload/managedworkload/runtime/hostfs"
	"github.com/managedworkload/managedworkload/runtime/projection"
)

const (
	// maxFiles bounds the memory that the files of all volumes of a pod take.
	maxFiles int64 = 32 << 20
	// filesSize is the size of the tmpfs of one volume: for two versions of its files,
	// since one replaces the other at once, and for directories.
	filesSize = 2*maxFiles + 4<<20
	// maxWriters bounds the pods whose files are in the shim's memory at a time.
	maxWriters = 4
	// tokenTimeout bounds the wait for one token.
	tokenTimeout = 15 * time.Second
)

// Objects is where ConfigMaps, Secrets and tokens come from. What it returns is shared
// and read-only. An error satisfies apierrors.IsNotFound if the object does not exist,
// and in no other case. Its text may be seen by who reads the workload's events.
type Objects interface {
	ConfigMap(namespace, name string) (*corev1.ConfigMap, error)
	Secret(namespace, name string) (*corev1.Secret, error)
	Token(ctx context.Context, pod *corev1.Pod, ask objects.Token) (string, error)
	// StartToken returns a token that containers start with.
	StartToken(ctx context.Context, pod *corev1.Pod, ask objects.Token) (string, error)
}

// noObjects is for a shim without a way to objects.
type noObjects struct{}

var errNoObjects = errors.New("the shim has no access to objects of the API server")

func (noObjects) ConfigMap(string, string) (*corev1.ConfigMap, error) { return nil, errNoObjects }

func (noObjects) Secret(string, string) (*corev1.Secret, error) { return nil, errNoObjects }

func (noObjects) Token(context.Context, *corev1.Pod, objects.Token) (string, error) {
	return "", errNoObjects
}

func (noObjects) StartToken(context.Context, *corev1.Pod, objects.Token) (string, error) {
	return "", errNoObjects
}

// setUpFiles makes a volume that shows objects, tokens or fields of the pod: a tmpfs of
// its own, always, so that nothing secret comes to a disk.
func (m *Manager) setUpFiles(ctx context.Context, on *pass, volume *corev1.Volume, k *kind) error {
	facts := m.gather(ctx, on.pod, volume, m.config.Objects.StartToken)
	all := func() (map[string]projection.File, error) {
		return projection.Files(on.pod, &volume.VolumeSource, facts)
	}
	trial := *on
	if err := m.withFiles(ctx, &trial, all, nil); err != nil {
		return m.unlessSetUp(ctx, on, k, volume, facts, err)
	}
	if err := m.mountFiles(ctx, on.pod, volume, k); err != nil {
		return err
	}
	err := m.withFiles(ctx, on, all, func(files map[string]projection.File) error {
		return m.write(ctx, on.pod, volume, k, files)
	})
	if err != nil {
		return err
	}
	return m.keepSource(ctx, on, volume, k)
}

// mountFiles mounts the tmpfs of a volume with files, if it is not there yet.
func (m *Manager) mountFiles(ctx context.Context, pod *corev1.Pod, volume *corev1.Volume, k *kind) error {
	dir := m.dir(pod.UID, k, volume.Name)
	mounts, err := hostfs.MountsAt(dir)
	if err != nil {
		return err
	}
	switch {
	case len(mounts) == 0:
		err = m.patience.Do(ctx, dir, func() error { return mountTmpfs(dir, k.files, filesSize) })
	case !isTmpfs(mounts[len(mounts)-1]):
		err = foreignMount(mounts)
	}
	if err != nil {
		return err
	}
	return m.seenByTheNode(dir)
}

// withFiles has the files of a volume in memory and does something with them. It is one of few at a
// time, and so nothing that waits for a disk may happen here.
func (m *Manager) withFiles(ctx context.Context, on *pass, project func() (map[string]projection.File, error), do func(map[string]projection.File) error) error {
	release, err := m.mayWrite(ctx)
	if err != nil {
		return err
	}
	defer release()
	files, err := project()
	if err == nil {
		err = on.take(files)
	}
	if err != nil || do == nil {
		return err
	}
	return do(files)
}

// unlessSetUp is an error about what a volume is to show, or nil where it shows files from
// before: containers that start again have those, and what of them can be brought up to date.
// (kubelet volumemanager/cache/actual_state_of_world.go: a volume whose remount has failed stays
// mounted)
func (m *Manager) unlessSetUp(ctx context.Context, on *pass, k *kind, volume *corev1.Volume, facts projection.Facts, err error) error {
	isSetUp, failed := m.isSetUpFor(ctx, on, k, volume)
	if failed != nil || !isSetUp {
		return errors.Join(err, failed)
	}
	if renewed := m.renew(ctx, on, volume, k, facts); renewed != nil {
		err = renewed
	}
	on.p.outdated = true
	m.config.Logger.Info("The files of a volume cannot be brought up to date; starting with those that are there",
		"namespace", on.pod.Namespace, "pod", on.pod.Name, "podUID", on.pod.UID, "volume", volume.Name, "reason", err.Error())
	return nil
}

// gather asks for what a volume refers to, with ask for tokens.
func (m *Manager) gather(ctx context.Context, pod *corev1.Pod, volume *corev1.Volume, ask askForToken) projection.Facts {
	facts := projection.Facts{
		ConfigMaps:  map[string]projection.Got[*corev1.ConfigMap]{},
		Secrets:     map[string]projection.Got[*corev1.Secret]{},
		Tokens:      map[objects.Token]projection.Got[string]{},
		Allocatable: m.config.Allocatable,
	}
	alone := &corev1.PodSpec{Volumes: []corev1.Volume{*volume}}
	for _, ref := range objects.Of(alone) {
		switch ref.Kind {
		case objects.ConfigMap:
			object, err := m.config.Objects.ConfigMap(pod.Namespace, ref.Name)
			facts.ConfigMaps[ref.Name] = projection.Got[*corev1.ConfigMap]{Value: object, Err: err}
		case objects.Secret:
			object, err := m.config.Objects.Secret(pod.Namespace, ref.Name)
			facts.Secrets[ref.Name] = projection.Got[*corev1.Secret]{Value: object, Err: err}
		case objects.ServiceAccount: // its tokens follow
		}
	}
	for _, which := range objects.Tokens(alone) {
		token, err := patiently(ctx, ask, pod, which)
		facts.Tokens[which] = projection.Got[string]{Value: token, Err: err}
	}
	return facts
}

// askForToken is a way to ask for a token.
type askForToken func(ctx context.Context, pod *corev1.Pod, ask objects.Token) (string, error)

func patiently(ctx context.Context, ask askForToken, pod *corev1.Pod, which objects.Token) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, tokenTimeout)
	defer cancel()
	return ask(ctx, pod, which)
}

// mayWrite waits until few others write.
func (m *Manager) mayWrite(ctx context.Context) (release func(), err error) {
	select {
	case m.writers <- struct{}{}:
		return func() { <-m.writers }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// renew brings the files of a volume up to date that is set up. The error is about what keeps its
// files: all of the volume, or sources of a projected one.
func (m *Manager) renew(ctx context.Context, on *pass, volume *corev1.Volume, k *kind, facts projection.Facts) error {
	var kept error
	project := func() (map[string]projection.File, error) {
		files, err := projection.Files(on.pod, &volume.VolumeSource, facts)
		if err == nil || volume.Projected == nil {
			return files, err
		}
		shown, failed := m.shown(ctx, on.pod, volume, k)
		if failed != nil {
			return nil, errors.Join(err, failed)
		}
		kept = err
		return projection.Renew(on.pod, volume.Projected, facts, shown), nil
	}
	err := m.withFiles(ctx, on, project, func(files map[string]projection.File) error {
		return m.write(ctx, on.pod, volume, k, files)
	})
	return errors.Join(kept, err)
}

// take is an error unless the pod has room for the files of one more volume.
func (p *pass) take(files map[string]projection.File) error {
	size := projection.Size(files)
	if p.taken+size > maxFiles {
		return fmt.Errorf("its files take %s of memory, and those of the volumes before it %s: a pod may have %s",
			quantity(size), quantity(p.taken), quantity(maxFiles))
	}
	p.taken += size
	return nil
}

// write shows files in a volume.
func (m *Manager) write(ctx context.Context, pod *corev1.Pod, volume *corev1.Volume, k *kind, files map[string]projection.File) error {
	content := atomicfiles.Content{
		Files: make(map[string]atomicfiles.File, len(files)), Mode: k.files, Group: fsGroup(pod),
		Mountpoints: nestedMountpoints(pod, volume.Name),
	}
	for path, file := range files {
		content.Files[path] = atomicfiles.File(file)
	}
	dir := m.dir(pod.UID, k, volume.Name)
	return m.patience.Do(ctx, dir, func() error {
		return inVolume(dir, func(root *os.Root) error {
			_, err := atomicfiles.Write(ctx, root, content)
			return err
		})
	})
}

// shown returns the content of the files that a volume shows.
func (m *Manager) shown(ctx context.Context, pod *corev1.Pod, volume *corev1.Volume, k *kind) (map[string][]byte, error) {
	dir := m.dir(pod.UID, k, volume.Name)
	read := func() (files map[string][]byte, err error) {
		err = inVolume(dir, func(root *os.Root) (err error) {
			files, err = atomicfiles.Read(root)
			return err
		})
		return files, err
	}
	files, err := hostfs.Ask(ctx, m.patience, dir, read, func(map[string][]byte) {})
	if err != nil {
		return nil, fmt.Errorf("read the files that it shows: %w", err)
	}
	return files, nil
}

// inVolume does something in the tmpfs of a volume.
func inVolume(dir string, do func(*os.Root) error) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	if err = inMemory(root); err == nil {
		err = do(root)
	}
	return errors.Join(err, root.Close())
}

// inMemory is an error unless an open directory is on a tmpfs, whatever its path leads to.
func inMemory(root *os.Root) error {
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	var stat unix.Statfs_t
	err = errors.Join(unix.Fstatfs(int(dir.Fd()), &stat), dir.Close())
	if err == nil && stat.Type != unix.TMPFS_MAGIC {
		err = errors.New("its tmpfs is not mounted")
	}
	return err
}
