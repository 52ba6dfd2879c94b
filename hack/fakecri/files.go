// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fakecri

import (
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// writeLogs begins a container's log with all that it will write, and beside it
// one that was rotated away, if its script says so.
func (r *Runtime) writeLogs(c *Container) error {
	if r.asRecorded {
		return nil
	}
	var log strings.Builder
	at := time.Now().UTC().Format(time.RFC3339Nano)
	for i := range c.run.LogLines {
		// Every third line continues in the next one.
		tag := "F"
		if i%3 == 1 {
			tag = "P"
		}
		fmt.Fprintf(&log, "%s stdout %s line %d of %s\n", at, tag, i, c.ID)
	}
	if c.RotatesLogs {
		if err := os.WriteFile(c.LogPath+".20260101-000000.gz", nil, 0o600); err != nil {
			return err
		}
	}
	return os.WriteFile(c.LogPath, []byte(log.String()), 0o600)
}

// leaveMessage writes the termination message, as a process does before it ends.
func (c *Container) leaveMessage() {
	for _, mount := range c.mounts {
		if c.run.MessageBytes > 0 && mount.GetContainerPath() != hostsFile {
			// An agent that took the file away finds none.
			_ = os.WriteFile(mount.GetHostPath(), []byte(message(c.ID, c.run.MessageBytes)), 0o600)
		}
	}
}

func message(id string, size int) string {
	words := fmt.Sprintf("the last words of %s; ", id)
	return strings.Repeat(words, 1+size/len(words))[:size]
}

// Digest is a text short enough for a line, and different for different texts.
func Digest(text string) string {
	const shown = 60
	if len(text) <= shown {
		return fmt.Sprintf("%q", text)
	}
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(text))
	return fmt.Sprintf("%q... (%d bytes, %x)", text[:shown], len(text), hash.Sum64())
}

// logFiles lists the pods' folders below that of the logs, and the files in them.
func (r *Runtime) logFiles() (lines []string) {
	_ = filepath.WalkDir(r.logs, func(path string, entry fs.DirEntry, err error) error {
		name, _ := filepath.Rel(r.logs, path)
		switch {
		case err != nil:
			lines = append(lines, "log "+name+" cannot be read")
		case !entry.IsDir():
			lines = append(lines, "log "+name)
		case name != "." && filepath.Dir(name) == ".":
			lines = append(lines, "logs of "+name)
		}
		return nil
	})
	return lines
}
