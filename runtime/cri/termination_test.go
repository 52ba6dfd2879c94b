// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/runtime/hostfs"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

func logLine(content string) string {
	return "2026-11-21T03:00:00.123456789Z stdout F " + content + "\n"
}

func TestTerminationMessage(t *testing.T) {
	long := strings.Repeat("x", maxTerminationMessage) + "end"
	tests := map[string]struct {
		file     func(path string) error
		log      string
		path     string // of the file in the container
		fallback bool
		exitCode int32
		runtime  string // what the runtime says
		want     string
	}{
		"file":                    {file: write("bye"), path: "/msg", want: "bye"},
		"not in UTF-8":            {file: write("by\xff\xfee"), path: "/msg", want: "by\ufffde"},
		"the runtime says it too": {file: write("bye"), path: "/msg", runtime: "boom", want: "boom: bye"},
		"relative path":           {file: write("bye"), path: "msg", want: "bye"},
		"the end of a long file":  {file: write(long), path: "/msg", want: long[3:]},
		"empty file":              {file: write(""), path: "/msg", runtime: "boom", want: "boom"},
		"no file":                 {path: "/msg", want: ""},
		"no path":                 {file: write("bye"), want: ""},
		"not mounted":             {file: write("bye"), path: "/elsewhere", want: ""},
		"file before log":         {file: write("bye"), path: "/msg", log: logLine("log"), fallback: true, exitCode: 1, want: "bye"},
		"log":                     {file: write(""), path: "/msg", log: logLine("a") + logLine("b"), fallback: true, exitCode: 1, want: "a\nb\n"},
		"log without a path":      {log: logLine("log"), fallback: true, exitCode: 1, want: "log\n"},
		"log without a file":      {path: "/msg", log: logLine("log"), fallback: true, exitCode: 1, want: "log\n"},
		"no log without an error": {path: "/msg", log: logLine("log"), fallback: true, want: ""},
		"no log by policy":        {path: "/msg", log: logLine("log"), exitCode: 1, want: ""},
		"log of parts":            {log: "2026-11-21T03:00:00Z stdout P a\n2026-11-21T03:00:00Z stderr F b\n", fallback: true, exitCode: 1, want: "ab\n"},
		"log with nonsense":       {log: "nonsense\n\n2026 stdout F x\n" + logLine("ok") + "2026-11-21T03:00:00Z other F x\n", fallback: true, exitCode: 1, want: "ok\n"},
		"log cut off":             {log: logLine("a") + "2026-11-21T03:00:00Z stdout F b", fallback: true, exitCode: 1, want: "a\nb"},
		"empty log":               {log: "", fallback: true, exitCode: 1, want: ""},
		"last lines of the log":   {log: numbered(100), fallback: true, exitCode: 1, want: plainNumbers(20, 100)},
		"last bytes of the log":   {log: logLine("a") + logLine(strings.Repeat("y", 3000)), fallback: true, exitCode: 1, want: strings.Repeat("y", 2047) + "\n"},
		"log of many windows": {
			log: strings.Repeat(logLine(strings.Repeat("z", 16000)), 30), fallback: true, exitCode: 1, want: strings.Repeat("z", 2047) + "\n",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "file")
			if tc.file != nil {
				if err := tc.file(file); err != nil {
					t.Fatal(err)
				}
			}
			s := plan.ContainerStatus{ExitCode: tc.exitCode, Message: tc.runtime, LogPath: filepath.Join(dir, "log")}
			if err := os.WriteFile(s.LogPath, []byte(tc.log), 0o600); err != nil {
				t.Fatal(err)
			}
			s.Recorded.TerminationMessagePath = tc.path
			if tc.fallback {
				s.Recorded.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
			}
			newFiles().addTerminationMessage(t.Context(), &s, []*runtimeapi.Mount{{ContainerPath: "/other", HostPath: "/x"}, {ContainerPath: "/msg", HostPath: file}})
			if s.Message != tc.want {
				t.Errorf("want %q, got %q", tc.want, s.Message)
			}
		})
	}
}

func newFiles() terminationFiles { return terminationFiles{hostfs.NewPatience(filePatience)} }

// A volume on a network file system that does not answer may be mounted where the
// message is: the kill that asks for the status does not wait for it.
func TestTerminationMessageOnAHungFileSystem(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		files, answer := newFiles(), make(chan struct{})
		hung := make(chan error)
		go func() {
			hung <- files.patience.Do(t.Context(), path, func() error { <-answer; return nil })
		}()
		synctest.Wait()
		asked := time.Now()
		message, _ := files.terminationMessage(t.Context(), "/msg", []*runtimeapi.Mount{{ContainerPath: "/msg", HostPath: path}}, true)
		if took := time.Since(asked); took > filePatience || !strings.Contains(message, hostfs.ErrHung.Error()) {
			t.Errorf("message %q after %s", message, took)
		}
		if err := <-hung; !errors.Is(err, hostfs.ErrHung) {
			t.Errorf("the call that hangs: %v", err)
		}
		close(answer)
	})
}

func write(content string) func(string) error {
	return func(path string) error { return os.WriteFile(path, []byte(content), 0o600) }
}

func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(logLine(fmt.Sprint(i)))
	}
	return b.String()
}

func plainNumbers(from, to int) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintln(&b, i)
	}
	return b.String()
}

// What a container can write to is not to be trusted: a link would lead to the
// node's secrets, a pipe would stop the shim.
func TestTerminationMessageIsReadSafely(t *testing.T) {
	for name, create := range map[string]func(path string) error{
		"link":      func(path string) error { return os.Symlink("/etc/passwd", path) },
		"pipe":      func(path string) error { return unix.Mkfifo(path, 0o600) },
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			if err := create(path); err != nil {
				t.Fatal(err)
			}
			message, useLog := newFiles().terminationMessage(t.Context(), "/msg", []*runtimeapi.Mount{{ContainerPath: "/msg", HostPath: path}}, true)
			if !strings.HasPrefix(message, "Error on reading termination log") || useLog || strings.Contains(message, "root:") {
				t.Errorf("got %q, %v", message, useLog)
			}
		})
	}
	if got := newFiles().endOfLog(t.Context(), filepath.Join(t.TempDir(), "none")); !strings.HasPrefix(got, "Error on reading termination message from logs") {
		t.Errorf("no log: got %q", got)
	}
}

// A log that was rotated shortly before the end begins in the file before.
func TestEndOfARotatedLog(t *testing.T) {
	long := strings.Repeat("z", 16000)
	for name, tt := range map[string]struct{ before, log, want string }{
		"a little in both":    {logLine("a") + logLine("b"), logLine("c"), "a\nb\nc\n"},
		"nothing since":       {numbered(100), "", plainNumbers(20, 100)},
		"much in the current": {logLine("a"), strings.Repeat(logLine(long), 30), strings.Repeat("z", 2047) + "\n"},
		"much in the other":   {strings.Repeat(logLine(long), 30), logLine("end"), strings.Repeat("z", 2043) + "\nend\n"},
	} {
		log := filepath.Join(t.TempDir(), "0.log")
		err := errors.Join(
			os.WriteFile(log+".20260101-000000", []byte(logLine("older")), 0o600),
			os.WriteFile(log+".20260101-000001", []byte(tt.before), 0o600),
			os.WriteFile(log, []byte(tt.log), 0o600),
		)
		if err != nil {
			t.Fatal(err)
		}
		if got := newFiles().endOfLog(t.Context(), log); got != tt.want {
			t.Errorf("%s: %.200q, want %.200q", name, got, tt.want)
		}
		if err := os.Remove(log); err != nil {
			t.Fatal(err)
		}
		if got := newFiles().endOfLog(t.Context(), log); strings.HasPrefix(got, "Error") {
			t.Errorf("%s, with the log missing: %.200q", name, got)
		}
	}
}
