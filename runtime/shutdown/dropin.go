// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shutdown

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/managedworkload/managedworkload/runtime/hostfs"
	"github.com/managedworkload/managedworkload/runtime/statefile"
)

const delayKey = "InhibitDelayMaxSec"

// dropInDirs hold logind's configuration; of two files of one name that of the later directory
// counts. (systemd.syntax(7))
var dropInDirs = []string{"/usr/lib/systemd/logind.conf.d", "/usr/local/lib/systemd/logind.conf.d", "/run/systemd/logind.conf.d", dropInDir}

// delay is what the files of other software set.
type delay struct {
	// found: one sets it; known: it is understood.
	found, known bool
	delay        time.Duration
}

// tooLittle reports whether what others set may be less than is needed: then a file of ours that
// comes last does no harm.
func (d delay) tooLittle(needed time.Duration) bool {
	return d.found && (!d.known || d.delay < needed)
}

// names are those to try for our file, in this order. What we read of the others may not be all that
// counts: the last name is always tried in the end.
func (d delay) names(needed time.Duration) []string {
	if d.known && d.tooLittle(needed) {
		return []string{lastDropIn}
	}
	return []string{dropIn, lastDropIn}
}

// othersDelay is the delay that counts without our files.
func othersDelay(root hostfs.Root) (set delay) {
	paths := map[string]string{}
	for _, dir := range dropInDirs {
		for _, name := range namesOf(root, dir) {
			if strings.HasSuffix(name, ".conf") && name != dropIn && name != lastDropIn {
				paths[name] = filepath.Join(dir, name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(paths)) {
		data, err := root.ReadFile(paths[name])
		if err != nil {
			set = delay{found: true} // who knows what it says
			continue
		}
		for line := range strings.Lines(string(data)) {
			// Blanks around the sign do not count. (systemd.syntax(7))
			if key, value, ok := strings.Cut(line, "="); ok && strings.TrimSpace(key) == delayKey {
				set = delay{found: true}
				set.delay, set.known = parseSpan(value)
			}
		}
	}
	return set
}

// namesOf are the names in a directory, none of one that cannot be read.
func namesOf(root hostfs.Root, path string) []string {
	dir, err := root.Open(path, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil
	}
	names, _ := dir.Readdirnames(-1) // those before an error count
	_ = dir.Close()
	return names
}

// parseSpan reads a span of time as people and kubelets write it. (systemd.time(7))
func parseSpan(text string) (time.Duration, bool) {
	text = strings.TrimSpace(text)
	if text == "infinity" {
		return math.MaxInt64, true
	}
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(n) * time.Second, true
	}
	d, err := time.ParseDuration(strings.NewReplacer(" ", "", "min", "m", "sec", "s").Replace(text))
	return d, err == nil && d >= 0
}

// hasDropIn reports whether there is a file of ours.
func hasDropIn(root hostfs.Root, name string) bool {
	_, err := root.Stat(filepath.Join(dropInDir, name))
	return err == nil
}

// removeDropIn removes a file of ours.
func removeDropIn(root hostfs.Root, name string) error {
	return inDropIns(root, func(dir string) error { return statefile.Remove(filepath.Join(dir, name)) })
}

// writeDropIn sets logind's delay on the node.
func writeDropIn(root hostfs.Root, name string, delay time.Duration) error {
	if err := root.MkdirAll(dropInDir); err != nil {
		return fmt.Errorf("make %s: %w", dropInDir, err)
	}
	return inDropIns(root, func(dir string) error {
		file := filepath.Join(dir, name)
		text := fmt.Sprintf("# Written by the shim of ManagedWorkload (--shutdown-grace-period)\n[Login]\n%s=%d\n", delayKey, seconds(delay))
		if err := statefile.Replace(file, []byte(text)); err != nil {
			return fmt.Errorf("write %s: %w", filepath.Join(dropInDir, name), err)
		}
		return os.Chmod(file, 0o644) //nolint:gosec // as systemd's other files, for people to read
	})
}

// inDropIns does something in the directory of our files.
func inDropIns(root hostfs.Root, do func(dir string) error) (err error) {
	dir, err := root.Open(dropInDir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return fmt.Errorf("open %s: %w", dropInDir, err)
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	return do(hostfs.FDPath(dir))
}
