// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package poddir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cyphar/filepath-securejoin/pathrs-lite"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/expansion"
)

// checkSubPath refuses what leads out of a volume by its text alone.
func checkSubPath(subPath string) error {
	if filepath.IsAbs(subPath) {
		return fmt.Errorf("error SubPath `%s` must not be an absolute path", subPath)
	}
	if slices.Contains(strings.Split(subPath, "/"), "..") {
		return fmt.Errorf("unable to provision SubPath `%s`: must not contain '..'", subPath)
	}
	return nil
}

// expandSubPath expands subPathExpr; a name without a value is an error.
// (container/helpers.go:ExpandContainerVolumeMounts)
func expandSubPath(expr string, values map[string]string) (string, error) {
	var missing []string
	expanded := expansion.Expand(expr, func(name string) (string, bool) {
		value := values[name]
		if value == "" && !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
		return value, true
	})
	if len(missing) > 0 {
		slices.Sort(missing)
		return "", fmt.Errorf("missing value for %s", strings.Join(missing, ", "))
	}
	return expanded, nil
}

// bindSubPath makes the subPath of a volume safe to mount: what a container may
// write to can become a symbolic link at any moment. The path is resolved with the
// volume as its root (openat2 RESOLVE_IN_ROOT: a link that points out of the volume
// ends up inside), and the file it led to is bound, by its descriptor, to a path in
// the pod's directory that no container can write to. The runtime gets that path.
// A directory that is missing is made with the mode of the volume's root.
// (volume/util/subpath)
func (m *Manager) bindSubPath(pod *corev1.Pod, c *corev1.Container, index int, volumePath, subPath string) (string, error) {
	root, err := nodeRoot(m.config.HostRoot).open(volumePath, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return "", err
	}
	source, err := openSubPath(root, subPath)
	if err = errors.Join(err, root.Close()); err != nil {
		return "", err
	}
	target := filepath.Join(m.podDir(pod.UID), subPathsDir, c.VolumeMounts[index].Name, c.Name, strconv.Itoa(index))
	err = bindFile(source, target)
	return target, errors.Join(err, source.Close())
}

func openSubPath(root *os.File, subPath string) (*os.File, error) {
	file, err := pathrs.OpenatInRoot(root, subPath)
	if !errors.Is(err, fs.ErrNotExist) {
		return file, err
	}
	info, err := root.Stat()
	if err != nil {
		return nil, err
	}
	dir, err := pathrs.MkdirAllHandle(root, subPath, info.Mode().Perm())
	if err != nil {
		return nil, err
	}
	// The umask may have taken what the volume's group needs; setgid is inherited.
	made, err := dir.Stat()
	if err == nil {
		err = os.Chmod(fdPath(dir), info.Mode().Perm()|made.Mode()&fs.ModeSetgid)
	}
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return dir, nil
}

func fdPath(f *os.File) string {
	return "/proc/self/fd/" + strconv.Itoa(int(f.Fd()))
}

// bindFile mounts source on target. A mount of an earlier instance is replaced,
// since the path may lead elsewhere by now; a container that has it keeps it.
func bindFile(source *os.File, target string) error {
	if err := unbind(target); err != nil {
		return err
	}
	info, err := source.Stat()
	if err != nil {
		return err
	}
	if err := makeTarget(target, info.IsDir()); err != nil {
		return err
	}
	if err := unix.Mount(fdPath(source), target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind to %q: %w", target, err)
	}
	return nil
}

func unbind(target string) error {
	for {
		mounted, err := isMounted(target)
		if err != nil || !mounted {
			return err
		}
		if err := unix.Unmount(target, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("unmount %q: %w", target, err)
		}
	}
}

func makeTarget(target string, dir bool) error {
	if err := os.MkdirAll(filepath.Dir(target), podDirMode); err != nil {
		return err
	}
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if dir {
		return os.Mkdir(target, podDirMode)
	}
	f, err := os.OpenFile(target, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o640) //nolint:gosec // below the pod directory
	if err != nil {
		return err
	}
	return f.Close()
}
