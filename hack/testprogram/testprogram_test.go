// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
)

// asProgram in the environment makes the test binary the test program.
const asProgram = "TESTPROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func program(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	// The race detector would have every one of them wait a second at its end.
	cmd.Env = append(os.Environ(), asProgram+"=1", "GORACE=atexit_sleep_ms=0")
	return cmd
}

func exitCode(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case !errors.As(err, &exit):
		return -1
	case exit.ExitCode() < 0:
		if status, ok := exit.Sys().(syscall.WaitStatus); ok {
			return 128 + int(status.Signal())
		}
	}
	return exit.ExitCode()
}

func TestStopSignals(t *testing.T) {
	tests := map[string]struct {
		args     []string
		signals  []syscall.Signal
		wantCode int
		wantLog  []string // without times
	}{
		"exits": {
			signals: []syscall.Signal{syscall.SIGTERM},
			wantLog: []string{"signal SIGTERM", "stopped code=0"},
		},
		"exits with a code": {
			args:     []string{"--term-exit-code=137"},
			signals:  []syscall.Signal{syscall.SIGTERM},
			wantCode: 137,
			wantLog:  []string{"signal SIGTERM", "stopped code=137"},
		},
		"exits later": {
			args:    []string{"--on-term=delay:50ms"},
			signals: []syscall.Signal{syscall.SIGTERM},
			wantLog: []string{"signal SIGTERM", "stopped code=0"},
		},
		"ignores until killed": {
			args:     []string{"--on-term=ignore"},
			signals:  []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL},
			wantCode: 137,
			wantLog:  []string{"signal SIGTERM"},
		},
		"stops on another signal only": {
			args:    []string{"--stop-signals=USR1"},
			signals: []syscall.Signal{syscall.SIGTERM, syscall.SIGUSR1},
			wantLog: []string{"signal SIGTERM", "signal SIGUSR1", "stopped code=0"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "log")
			cmd := program(append([]string{"serve", "--log-file=" + file}, tc.args...)...)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			awaitLines(t, file, 1)
			for i, sig := range tc.signals {
				if err := cmd.Process.Signal(sig); err != nil {
					t.Fatal(err)
				}
				if sig != syscall.SIGKILL {
					awaitLines(t, file, 2+i)
				}
			}
			if diff := cmp.Diff(tc.wantCode, exitCode(cmd.Wait())); diff != "" {
				t.Errorf("exit code (-want +got):\n%s", diff)
			}
			lines := awaitLines(t, file, 1)
			if diff := cmp.Diff(tc.wantLog, lines[1:]); diff != "" {
				t.Errorf("log (-want +got):\n%s", diff)
			}
		})
	}
}

var stamp = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+\S* `)

// awaitLines returns the log's lines without their times once there are n.
func awaitLines(t *testing.T, file string, n int) []string {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		data, err := os.ReadFile(file)
		if err == nil && bytes.Count(data, []byte("\n")) >= n {
			var lines []string
			for line := range strings.Lines(string(data)) {
				if !stamp.MatchString(line) {
					t.Errorf("line without a time: %s", line)
				}
				lines = append(lines, strings.TrimSpace(stamp.ReplaceAllString(line, "")))
			}
			return lines
		}
		if time.Now().After(deadline) {
			t.Fatalf("not %d lines in the log: %s %v", n, data, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// An instance beats while it runs, and says so when another holds its lock.
func TestHeartbeatAndLock(t *testing.T) {
	dir := t.TempDir()
	var logs []string
	for i := range 2 {
		log := filepath.Join(dir, fmt.Sprint(i))
		cmd := program("serve", "--mark=m", "--log-file="+log, "--heartbeat=10ms", "--exclusive="+filepath.Join(dir, "lock"))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		logs = append(logs, strings.Join(awaitLines(t, log, 4), "\n"))
	}
	if !strings.Contains(logs[0], "alive\nalive") || strings.Contains(logs[0], "not alone") {
		t.Errorf("the first one's log:\n%s", logs[0])
	}
	if !strings.Contains(logs[1], "not alone: ") {
		t.Errorf("the second one's log:\n%s", logs[1])
	}
}

func TestLogByContainer(t *testing.T) {
	dir := t.TempDir()
	cmd := program("serve", "--log-file="+filepath.Join(dir, "a"), "--log-by-container", "--exit-after=0s")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "a.?*"))
	if err != nil || len(files) != 1 {
		t.Errorf("journals %q, %v", files, err)
	}
}

func TestExitCodesByRun(t *testing.T) {
	count := filepath.Join(t.TempDir(), "count")
	var got []int
	for range 4 {
		cmd := program("--exit-after=0s", "--exit-code=3,1,0", "--count-file="+count)
		got = append(got, exitCode(cmd.Run()))
	}
	if diff := cmp.Diff([]int{3, 1, 0, 0}, got); diff != "" {
		t.Errorf("exit codes (-want +got):\n%s", diff)
	}
}

func TestCommands(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	tests := []struct { // in this order: one file goes through them
		args     []string
		wantCode int
		want     string
	}{
		{args: []string{"check-file", file}, wantCode: 1},
		{args: []string{"check-no-file", file}},
		{args: []string{"seq", "touch", file, ",", "check-file", file, ",", "exit", "4", ",", "echo", "unreached"}, wantCode: 4},
		{args: []string{"check-no-file", file}, wantCode: 1},
		{args: []string{"wait-file", file}},
		{args: []string{"write", file, "text"}},
		{args: []string{"seq", "cat", file, ",", "echo", "", "and", "more"}, want: "text and more\n"},
		{args: []string{"seq", "try", "cat", "/no/such/file", ",", "echo", "on"}, want: "error: open /no/such/file: no such file or directory\non\n"},
		{args: []string{"try", "exit", "3"}, want: "error: exit status 3\n"},
		{args: []string{"env", asProgram}, want: "1\n"},
		{args: []string{"env", "NOT_SET"}, wantCode: 1},
		{args: []string{"write-termination-message", "bye", file}},
		{args: []string{"cat", file}, want: "bye"},
		{args: []string{"rm", file}},
		{args: []string{"check-no-file", file}},
		{args: []string{"nonsense"}, wantCode: 1},
		{args: []string{"sleep"}, wantCode: 1},
		{args: []string{"--nonsense"}, wantCode: 1},
	}
	for _, tc := range tests {
		var out bytes.Buffer
		cmd := program(tc.args...)
		cmd.Stdout = &out
		if diff := cmp.Diff(tc.wantCode, exitCode(cmd.Run())); diff != "" {
			t.Errorf("%q: exit code (-want +got):\n%s", tc.args, diff)
		}
		if diff := cmp.Diff(tc.want, out.String()); diff != "" {
			t.Errorf("%q: output (-want +got):\n%s", tc.args, diff)
		}
	}
}

// TestHealth asks all servers at once while the health changes.
func TestHealth(t *testing.T) {
	failFile := filepath.Join(t.TempDir(), "fail")
	addresses := freeAddresses(t, 3)
	web, tcp, rpc := addresses[0], addresses[1], addresses[2]
	ctx, cancel := context.WithCancel(t.Context())
	h := newHealth(healthOptions{http: web, tcp: tcp, grpc: rpc, failFile: failFile, unhealthyAfter: never}, &journal{out: io.Discard})
	wait, err := h.serve(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		if err := wait(); err != nil {
			t.Error(err)
		}
	}()
	conn, err := grpc.NewClient(rpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // a connection of the test
	probe := func() string {
		_, tcpErr := net.DialTimeout("tcp", tcp, time.Second)
		answer, err := healthv1.NewHealthClient(conn).Check(ctx, &healthv1.HealthCheckRequest{Service: "liveness"})
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("healthz %d readyz %d startupz %d tcp %t grpc %s",
			get(t, web, "/healthz"), get(t, web, "/readyz"), get(t, web, "/startupz"), tcpErr == nil, answer.GetStatus())
	}
	healthy := "healthz 200 readyz 200 startupz 200 tcp true grpc SERVING"
	sick := "healthz 503 readyz 503 startupz 503 tcp false grpc NOT_SERVING"
	steps := []struct {
		name   string
		change func()
		want   string
	}{
		{"at first", func() {}, healthy},
		{"asked to fail", func() { get(t, web, "/fail") }, sick},
		{"asked to recover", func() { get(t, web, "/recover") }, healthy},
		{"asked not to be ready", func() { get(t, web, "/unready") }, strings.Replace(healthy, "readyz 200", "readyz 503", 1)},
		{"asked to be ready", func() { get(t, web, "/ready") }, healthy},
		{"the file is there", func() { touchForTest(t, failFile) }, sick},
	}
	for _, step := range steps {
		step.change()
		deadline := time.Now().Add(5 * time.Second)
		got := probe()
		for got != step.want && time.Now().Before(deadline) {
			time.Sleep(tcpPoll) // the TCP server looks no more often
			got = probe()
		}
		if got != step.want {
			t.Errorf("%s: got %s, want %s", step.name, got, step.want)
		}
	}
	if code := get(t, web, "/status?code=418"); code != http.StatusTeapot {
		t.Errorf("status asked for 418 is %d", code)
	}
}

func get(t *testing.T, address, path string) int {
	t.Helper()
	response, err := http.Get("http://" + address + path)
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode
}

func touchForTest(t *testing.T, file string) {
	t.Helper()
	if err := touch([]string{file}); err != nil {
		t.Fatal(err)
	}
}

func freeAddresses(t *testing.T, n int) []string {
	t.Helper()
	var addresses []string
	for range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close() //nolint:errcheck // only to find a port
		addresses = append(addresses, listener.Addr().String())
	}
	return addresses
}

// A flood writes as much in a second as it was given, in numbered lines.
func TestFlood(t *testing.T) {
	t.Parallel()
	const rate = 4 << 20
	cmd := program("flood", fmt.Sprint(rate))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	content := make([]byte, rate/2)
	_, err = io.ReadFull(out, content)
	took := time.Since(begun)
	if err := errors.Join(err, cmd.Process.Kill()); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if took < 400*time.Millisecond {
		t.Errorf("what takes half a second took %v", took)
	}
	for i, line := range strings.Split(strings.TrimSuffix(string(content), "\n"), "\n") {
		if len(line) != 1023 || !strings.HasPrefix(line, fmt.Sprintf("%010d ", i)) {
			t.Fatalf("line %d: %.20q of %d bytes", i, line, len(line))
		}
	}
	for _, rate := range []string{"fast", "0", "-1"} {
		if err := run([]string{"flood", rate}); err == nil {
			t.Errorf("a flood of %s bytes a second", rate)
		}
	}
}
