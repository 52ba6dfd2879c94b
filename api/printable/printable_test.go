// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package printable

import "testing"

func TestLine(t *testing.T) {
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
			if got := Line(tc.text); got != tc.want {
				t.Errorf("Line(%q) = %q, want %q", tc.text, got, tc.want)
			}
		})
	}
}

// A text of several lines keeps them.
func TestText(t *testing.T) {
	if got, want := Text("one\n\ttwo\x1b[2J\r\u202e"), "one\n\ttwo\\u001b[2J\\u000d\\u202e"; got != want {
		t.Errorf("Text = %q, want %q", got, want)
	}
}
