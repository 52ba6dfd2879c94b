// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestChecksFailWhereSomethingIsMissing(t *testing.T) {
	dir := t.TempDir()
	file, token, old := filepath.Join(dir, "file"), filepath.Join(dir, "token"), filepath.Join(dir, "old")
	claims := func(expires time.Time) string {
		text := fmt.Sprintf(`{"aud":["api"],"sub":"system:serviceaccount:a:b","exp":%d}`, expires.Unix())
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(text)) + ".c2ln"
	}
	for name, text := range map[string]string{
		file: "some text\n", token: claims(time.Now().Add(time.Hour)), old: claims(time.Now().Add(-time.Hour)),
	} {
		if err := os.WriteFile(name, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("CHECKED", "yes")
	self, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	uid, gid := strconv.Itoa(os.Geteuid()), strconv.Itoa(os.Getegid())
	tests := map[string]struct{ met, missing string }{
		"content":    {"check-contains " + file + " text", "check-content " + file + " text"},
		"mode":       {"check-mode " + file + " 0640 " + uid, "check-mode " + file + " 0600"},
		"variable":   {"check-env CHECKED yes", "check-env CHECKED no"},
		"user":       {"check-user " + uid + " " + gid, "check-user " + uid + " 4242"},
		"mount":      {"check-mount /proc proc", "check-mount /proc tmpfs"},
		"no mount":   {"check-mount /proc rw", "check-mount " + dir + " rw"},
		"write":      {"check-write " + dir, "check-write " + file},
		"process":    {"check-process " + strings.TrimSpace(string(self)), "check-process no-such-process"},
		"interface":  {"check-interface lo", "check-interface nosuch0"},
		"audience":   {"check-token " + token + " api system:serviceaccount:a:b", "check-token " + token + " other system:serviceaccount:a:b"},
		"expiry":     {"check-token " + token + " api system:serviceaccount:a:b", "check-token " + old + " api system:serviceaccount:a:b"},
		"subject":    {"check-token " + token + " api system:serviceaccount:a:b", "check-token " + token + " api system:serviceaccount:a:c"},
		"no cluster": {"check-file " + file, "check-api / 200"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			for line, want := range map[string]bool{tc.met: true, tc.missing: false} {
				words := strings.Fields(line)
				if err := runCommand(words[0], words[1:]); (err == nil) != want {
					t.Errorf("%s: %v, want success: %t", line, err, want)
				}
			}
		})
	}
}

func TestReadyOnceAllRequirementsWereMet(t *testing.T) {
	dir := t.TempDir()
	log, err := openJournal("")
	if err != nil {
		t.Fatal(err)
	}
	var required requirements
	for _, file := range []string{"a", "b"} {
		if err := required.Set("check-file " + filepath.Join(dir, file)); err != nil {
			t.Fatal(err)
		}
	}
	h := newHealth(healthOptions{unhealthyAfter: never, requirements: required}, log)
	for _, step := range []struct {
		change func() error
		want   []string
	}{
		{func() error { return nil }, []string{"/a", "/b"}},
		{func() error { return touch([]string{filepath.Join(dir, "a")}) }, []string{"/b"}},
		{func() error { return os.Remove(filepath.Join(dir, "a")) }, []string{"/b"}}, // it was met once
		{func() error { return touch([]string{filepath.Join(dir, "b")}) }, nil},
	} {
		if err := step.change(); err != nil {
			t.Fatal(err)
		}
		err := h.ready()
		if (err == nil) != (step.want == nil) {
			t.Errorf("ready: %v, want what is missing to be %q", err, step.want)
		}
		for _, file := range step.want {
			if !strings.Contains(err.Error(), dir+file) {
				t.Errorf("ready: %v, want it to name %s", err, file)
			}
		}
		if err := h.live(); err != nil {
			t.Errorf("live: %v", err)
		}
	}
}
