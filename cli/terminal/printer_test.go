// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"bytes"
	"errors"
	"os"
	"testing"
)

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
