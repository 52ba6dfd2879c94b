// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package localstack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	ipForward   = "/proc/sys/net/ipv4/ip_forward"
	cgroupRoot  = "/sys/fs/cgroup"
	cgroupK8sIO = "/k8s.io" // containerd's, for pods without a parent
	cniCache    = "/var/lib/cni"
)

// sharedChains are portmap's chains that all CNI networks of a host share.
var sharedChains = []string{"CNI-HOSTPORT-DNAT", "CNI-HOSTPORT-MASQ", "CNI-HOSTPORT-SETMARK"}

// before is what the host was like before the stack, where the stack shares
// something with others and may remove only what it made. Stacks that run at
// the same time share it: the last one removes what the first one made.
type before struct {
	IPForward string   `json:"ipForward"`
	Existing  []string `json:"existing"` // folders, cgroups and chains
}

func observeHost(l layout) (before, error) {
	others, err := otherStacks(l)
	if err != nil {
		return before{}, err
	}
	for _, dir := range others {
		other, err := newLayout(dir)
		if err != nil {
			continue
		}
		if st, err := loadState(other); err == nil && st != nil {
			return st.Before, nil
		}
	}
	return lookAround(), nil
}

func lookAround() before {
	b := before{}
	if data, err := os.ReadFile(ipForward); err == nil {
		b.IPForward = string(bytes.TrimSpace(data))
	}
	paths := append(cgroupDirs(cgroupK8sIO), cniCache, filepath.Join(cniCache, "results"), "/run/containerd")
	for _, path := range paths {
		if _, err := os.Stat(path); err == nil {
			b.Existing = append(b.Existing, path)
		}
	}
	if os.Geteuid() != 0 {
		return b
	}
	for _, chain := range sharedChains {
		if exec.Command(lookUpProgram("iptables"), "-w", "-t", "nat", "-n", "-L", chain).Run() == nil {
			b.Existing = append(b.Existing, chain)
		}
	}
	return b
}

func (b before) had(name string) bool {
	return slices.Contains(b.Existing, name)
}

// cgroupDirs are the folders of a cgroup in every hierarchy, for cgroup v1 and v2.
func cgroupDirs(group string) []string {
	if _, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.controllers")); err == nil {
		return []string{filepath.Join(cgroupRoot, group)}
	}
	hierarchies, err := os.ReadDir(cgroupRoot)
	if err != nil {
		return nil
	}
	var dirs []string
	for _, h := range hierarchies {
		if h.IsDir() { // a link is a second name of a hierarchy
			dirs = append(dirs, filepath.Join(cgroupRoot, h.Name(), group))
		}
	}
	return dirs
}

// removeCgroups removes the cgroups of the shim's pods, and containerd's own
// group if it is empty and was not there before.
func removeCgroups(l layout, b before) error {
	var errs []error
	for _, dir := range cgroupDirs(l.cgroupParent()) {
		errs = append(errs, removeCgroupTree(dir))
	}
	for _, dir := range cgroupDirs(cgroupK8sIO) {
		if !b.had(dir) {
			_ = unix.Rmdir(dir) // in use by another containerd, or not there
		}
	}
	return errors.Join(errs...)
}

// removeCgroupTree removes a cgroup and those in it, the innermost first.
func removeCgroupTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeCgroupTree(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove cgroup %s: %w", dir, err)
	}
	return nil
}

// removeNetwork removes what the CNI plugins made and left behind.
func removeNetwork(ctx context.Context, l layout, b before) []error {
	var errs []error
	if _, err := os.Stat(filepath.Join("/sys/class/net", l.bridge())); err == nil {
		errs = append(errs, run(ctx, command{path: "ip", args: []string{"link", "delete", l.bridge()}}))
	}
	errs = append(errs, removeChains(ctx, l), removeCNIResults(l.bridge()+"-*"))
	others, err := otherStacks(l)
	if err != nil || len(others) > 0 {
		return append(errs, err) // the last one removes what they share
	}
	errs = append(errs, removeSharedChains(ctx, b))
	for _, dir := range []string{filepath.Join(cniCache, "results"), cniCache, "/run/containerd"} {
		if !b.had(dir) {
			_ = unix.Rmdir(dir) // not empty, or not there
		}
	}
	if b.IPForward == "0" {
		errs = append(errs, os.WriteFile(ipForward, []byte("0"), 0o644))
	}
	return errs
}

// removeCNIResults removes what libcni remembers about networks it has set up.
func removeCNIResults(pattern string) error {
	results, err := filepath.Glob(filepath.Join(cniCache, "results", pattern))
	errs := []error{err}
	for _, result := range results {
		errs = append(errs, os.Remove(result))
	}
	return errors.Join(errs...)
}

// removeChains removes this network's chains from the nat table.
func removeChains(ctx context.Context, l layout) error {
	var table bytes.Buffer
	if err := run(ctx, command{path: "iptables", args: []string{"-w", "-t", "nat", "-S"}, out: &table}); err != nil {
		return err
	}
	rules := strings.Split(table.String(), "\n")
	own := map[string]bool{}
	for _, rule := range rules {
		fields := strings.Fields(rule)
		if len(fields) > 2 && fields[0] == "-A" && strings.Contains(rule, `\"`+l.bridge()+`\"`) {
			// The rule stands in its own chain, or jumps to it.
			for _, field := range []string{fields[1], fields[len(fields)-1]} {
				if strings.HasPrefix(field, "CNI-") && !strings.HasPrefix(field, "CNI-HOSTPORT-") {
					own[field] = true
				}
			}
		}
	}
	var errs []error
	for _, rule := range rules {
		arguments := splitRule(rule)
		if len(arguments) > 2 && arguments[0] == "-A" && own[arguments[len(arguments)-1]] {
			arguments[0] = "-D"
			errs = append(errs, iptables(ctx, arguments...))
		}
	}
	for chain := range own {
		errs = append(errs, iptables(ctx, "-F", chain), iptables(ctx, "-X", chain))
	}
	return errors.Join(errs...)
}

// removeSharedChains removes portmap's chains if no network has host ports any
// more and they were not there before.
func removeSharedChains(ctx context.Context, b before) error {
	var table bytes.Buffer
	if err := run(ctx, command{path: "iptables", args: []string{"-w", "-t", "nat", "-S"}, out: &table}); err != nil {
		return err
	}
	if strings.Contains(table.String(), "-j CNI-DN-") {
		return nil // another network's host ports
	}
	var errs []error
	for _, shared := range sharedChains {
		if b.had(shared) || !strings.Contains(table.String(), "-N "+shared+"\n") {
			continue
		}
		for rule := range strings.SplitSeq(table.String(), "\n") {
			arguments := splitRule(rule)
			if len(arguments) > 2 && arguments[0] == "-A" && arguments[len(arguments)-1] == shared {
				arguments[0] = "-D"
				errs = append(errs, iptables(ctx, arguments...))
			}
		}
		errs = append(errs, iptables(ctx, "-F", shared), iptables(ctx, "-X", shared))
	}
	return errors.Join(errs...)
}

func iptables(ctx context.Context, args ...string) error {
	return run(ctx, command{path: "iptables", args: append([]string{"-w", "-t", "nat"}, args...)})
}

// splitRule splits a line of "iptables -S", whose only quoted words are
// comments with escaped quotes in them.
func splitRule(rule string) []string {
	var words []string
	var word strings.Builder
	quoted, escaped := false, false
	for _, r := range rule {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\':
			escaped = true
		case r == '"':
			quoted = !quoted
		case r == ' ' && !quoted:
			words = append(words, word.String())
			word.Reset()
		default:
			word.WriteRune(r)
		}
	}
	if word.Len() > 0 {
		words = append(words, word.String())
	}
	return words
}
