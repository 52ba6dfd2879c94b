// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package localstack

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// What a kubelet touches outside its own folders, whatever its configuration.
const (
	kubeletHome     = "/var/lib/kubelet"
	devicePlugins   = kubeletHome + "/device-plugins"
	containerLinks  = "/var/log/containers"
	kubeletHostFile = "host.json"
)

// kubeletFolders are made by every kubelet, the innermost first.
var kubeletFolders = []string{devicePlugins, kubeletHome, containerLinks}

// kubeletSysctls are set by every kubelet
// (cm/container_manager_linux.go:setupKernelTunables).
var kubeletSysctls = []string{
	"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
	"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
}

// kubeletHost is what the host was like before the kubelet.
type kubeletHost struct {
	Sysctls  map[string]string `json:"sysctls"`
	Existing []string          `json:"existing"`
}

// refuseSecondKubelet keeps the stack's kubelet from taking over the socket that
// a kubelet of this machine serves device plugins on: its path is fixed.
func refuseSecondKubelet() error {
	conn, err := net.DialTimeout("unix", filepath.Join(devicePlugins, "kubelet.sock"), time.Second)
	if err != nil {
		return nil //nolint:nilerr // nobody listens
	}
	return errors.Join(errors.New("another kubelet runs on this machine"), conn.Close())
}

// rememberHost writes down what removeKubelet restores.
func rememberHost(node layout) error {
	host := kubeletHost{Sysctls: map[string]string{}}
	for _, name := range kubeletSysctls {
		value, err := os.ReadFile(filepath.Join("/proc/sys", name))
		if err != nil {
			return err
		}
		host.Sysctls[name] = string(bytes.TrimSpace(value))
	}
	for _, dir := range kubeletFolders {
		if _, err := os.Stat(dir); err == nil {
			host.Existing = append(host.Existing, dir)
		}
	}
	data, err := json.Marshal(host)
	if err != nil {
		return err
	}
	return os.WriteFile(node.path(kubeletHostFile), data, 0o600)
}

// removeKubelet removes what the kubelet left behind, once it and its containers
// are gone and their mounts with them.
func removeKubelet(node layout) []error {
	data, err := os.ReadFile(node.path(kubeletHostFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{removeContainerLinks(node)}
	var host kubeletHost
	if err := errors.Join(err, json.Unmarshal(data, &host)); err != nil {
		return append(errs, fmt.Errorf("what was before the kubelet: %w", err))
	}
	for name, value := range host.Sysctls {
		errs = append(errs, os.WriteFile(filepath.Join("/proc/sys", name), []byte(value), 0o644))
	}
	if !slices.Contains(host.Existing, devicePlugins) {
		errs = append(errs, os.RemoveAll(devicePlugins))
	}
	for _, dir := range kubeletFolders {
		if !slices.Contains(host.Existing, dir) {
			_ = unix.Rmdir(dir) // something else uses it, or it is not there
		}
	}
	return errs
}

// removeContainerLinks removes the links that the kubelet made to the logs of
// its containers.
func removeContainerLinks(node layout) error {
	links, err := filepath.Glob(filepath.Join(containerLinks, "*.log"))
	errs := []error{err}
	for _, link := range links {
		target, err := os.Readlink(link)
		if err == nil && strings.HasPrefix(target, node.podLogs()+"/") {
			errs = append(errs, os.Remove(link))
		}
	}
	return errors.Join(errs...)
}

// makeCgroup makes a cgroup in every hierarchy, ready for children: a kubelet
// does not make its root.
func makeCgroup(group string) error {
	for _, dir := range cgroupDirs(group) {
		if filepath.Base(filepath.Dir(dir)) == "unified" {
			continue // of a hybrid host: it has no controllers
		}
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		// A cpuset takes no process before it has processors and memory.
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			value, err := os.ReadFile(filepath.Join(filepath.Dir(dir), file))
			if err != nil || filepath.Base(filepath.Dir(dir)) != "cpuset" {
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, file), value, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}
