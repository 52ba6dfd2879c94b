// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/runtime/hostfs"
	"github.com/managedworkload/managedworkload/runtime/logs"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// The kubelet's limits. (kubelet container/runtime.go)
const (
	// maxTerminationMessage is read of the file, in bytes.
	maxTerminationMessage = 4096
	// maxTerminationLog is read of the log, in bytes, of at most
	// maxTerminationLogLines lines.
	maxTerminationLog      = 2048
	maxTerminationLogLines = 80
	// logWindow is enough of a log's end for both: either it has that many lines,
	// or lines so long that their content fills maxTerminationLog.
	logWindow = 128 << 10
)

var errNotRegular = errors.New("not a regular file")

// filePatience is how long a file system may take to answer: a volume on a network
// file system can be mounted where the termination message is, and a kill waits for
// the status.
const filePatience = 2 * time.Second

// terminationFiles reads what exited containers left.
type terminationFiles struct{ patience *hostfs.Patience }

// addTerminationMessage adds what an exited container left: the end of its
// termination message file, or of its log when the policy says so. (kubelet
// kuberuntime_container.go:convertToKubeContainerStatus)
func (f terminationFiles) addTerminationMessage(ctx context.Context, s *plan.ContainerStatus, mounts []*runtimeapi.Mount) {
	fallback := s.Recorded.TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError &&
		s.ExitCode != 0 && s.Reason != "ContainerCannotRun"
	message, useLog := f.terminationMessage(ctx, s.Recorded.TerminationMessagePath, mounts, fallback)
	if useLog {
		message = f.endOfLog(ctx, s.LogPath)
	}
	if message == "" {
		return
	}
	if s.Message != "" {
		s.Message += ": "
	}
	// As JSON has it: the status must be the same when it comes back from the API.
	s.Message += strings.ToValidUTF8(message, string(utf8.RuneError))
}

// terminationMessage reads the file that is mounted at path in the container.
// It also reports whether the log is to be read instead. (kubelet
// kuberuntime_container.go:getTerminationMessage)
func (f terminationFiles) terminationMessage(ctx context.Context, path string, mounts []*runtimeapi.Mount, fallback bool) (message string, useLog bool) {
	if path == "" {
		return "", fallback
	}
	if !filepath.IsAbs(path) {
		path = "/" + path
	}
	i := slices.IndexFunc(mounts, func(m *runtimeapi.Mount) bool { return m.GetContainerPath() == path })
	if i < 0 {
		return "", fallback
	}
	data, err := f.tail(ctx, mounts[i].GetHostPath(), maxTerminationMessage)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fallback
	}
	if err != nil {
		return fmt.Sprintf("Error on reading termination log %s: %v", mounts[i].GetHostPath(), err), false
	}
	return string(data), fallback && len(data) == 0
}

// tail reads at most limit bytes from the end of a regular file.
func (f terminationFiles) tail(ctx context.Context, path string, limit int64) ([]byte, error) {
	return hostfs.Ask(ctx, f.patience, path, func() ([]byte, error) { return readTail(path, limit) }, func([]byte) {})
}

// readTail reads a file for tail. What a container can write to may be anything by
// now: no link is followed and no pipe waited for.
func readTail(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0) //nolint:gosec // the runtime names the path
	if err != nil {
		return nil, err
	}
	// Nothing was written: there is nothing that closing could lose.
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: path, Err: errNotRegular}
	}
	start := max(info.Size()-limit, 0)
	return io.ReadAll(io.NewSectionReader(f, start, limit))
}

// readEnd reads the end of a log, which may begin in the file that it was rotated to last.
func readEnd(path string) ([]byte, error) {
	data, err := readTail(path, logWindow)
	if len(data) == logWindow || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return data, err
	}
	before := logs.Before(path)
	if before == "" {
		return data, err
	}
	first, firstErr := readTail(before, int64(logWindow-len(data)))
	if firstErr != nil {
		return data, err
	}
	return append(first, data...), nil
}

// endOfLog returns the end of a container's output. (kubelet
// kuberuntime_container.go:readLastStringFromContainerLogs)
func (f terminationFiles) endOfLog(ctx context.Context, path string) string {
	data, err := hostfs.Ask(ctx, f.patience, path, func() ([]byte, error) { return readEnd(path) }, func([]byte) {})
	if err != nil {
		return fmt.Sprintf("Error on reading termination message from logs: %v", err)
	}
	lines := bytes.SplitAfter(data, []byte{'\n'})
	if len(data) == logWindow && len(lines) > 1 {
		// The first line may lack its beginning.
		lines = lines[1:]
	}
	if len(lines[len(lines)-1]) == 0 {
		lines = lines[:len(lines)-1]
	}
	lines = lines[max(len(lines)-maxTerminationLogLines, 0):]
	var out []byte
	for _, line := range lines {
		out = append(out, logContent(line)...)
	}
	return string(out[max(len(out)-maxTerminationLog, 0):])
}

// logContent takes what the container wrote out of a line of a CRI log:
// "<time> <stream> <tags> <content>"; tag P says that the line continues. A line
// of another shape has none.
func logContent(line []byte) []byte {
	fields := bytes.SplitN(line, []byte{' '}, 4)
	if len(fields) < 4 {
		return nil
	}
	if _, err := time.Parse(time.RFC3339Nano, string(fields[0])); err != nil {
		return nil
	}
	if stream := string(fields[1]); stream != "stdout" && stream != "stderr" {
		return nil
	}
	tag, _, _ := bytes.Cut(fields[2], []byte(runtimeapi.LogTagDelimiter))
	if string(tag) == string(runtimeapi.LogTagPartial) {
		return bytes.TrimSuffix(fields[3], []byte{'\n'})
	}
	return fields[3]
}
