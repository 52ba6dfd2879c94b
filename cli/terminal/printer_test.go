// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"bytes"
	"errors"
	"os"
	"testing"
)

func TestClean(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"plain":        {"exit 3, größer", "exit 3, größer"},
		"escape":       {"\x1b[31mred\x1b[0m", `\u001b[31mred\u001b[0m`},
		"title":        {"\x1b]0;gotcha\a", `\u001b]0;gotcha\u0007`},
		"eight bits":   {"\u009b31m", `\u009b31m`},
		"direction":    {"a\u202eb", `a\u202eb`},
		"lines":        {"one\ntwo\tthree", "one two three"},
		"carriage":     {"good\rbad", `good\u000dbad`},
		"no character": {"a\xffb", `a\ufffdb`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Clean(tc.text); got != tc.want {
				t.Errorf("Clean(%q) = %q, want %q", tc.text, got, tc.want)
			}
		})
	}
}

func TestColours(t *testing.T) {
	for coloured, want := range map[bool]string{true: "\x1b[31m\\u001b[2Jred\x1b[0m \\u001b[2J \\u001b[2J 3", false: `\u001b[2Jred \u001b[2J \u001b[2J 3`} {
		var out bytes.Buffer
		p := &Printer{W: &out, Coloured: coloured}
		p.Printf("%s %s %s %d", p.Paint(Red, "\x1b[2Jred"), "\x1b[2J", errors.New("\x1b[2J"), 3)
		if got := out.String(); got != want {
			t.Errorf("coloured %t: %q, want %q", coloured, got, want)
		}
	}
}

// Only a terminal gets colours, and only where NO_COLOR is not set.
func TestNew(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // a temporary file
	if New(file).Coloured || New(&bytes.Buffer{}).Coloured {
		t.Error("a file or a buffer gets colours")
	}
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no terminal:", err)
	}
	defer terminal.Close() //nolint:errcheck // a terminal
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	if !New(terminal).Coloured {
		t.Error("a terminal gets no colours")
	}
	t.Setenv("NO_COLOR", "1")
	if New(terminal).Coloured {
		t.Error("a terminal gets colours although NO_COLOR is set")
	}
}
