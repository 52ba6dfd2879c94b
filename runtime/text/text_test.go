// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package text_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/managedworkload/managedworkload/runtime/text"
)

func TestCut(t *testing.T) {
	tests := map[string]struct {
		given string
		bytes int
		want  string
	}{
		"short enough":              {"abc", 3, "abc"},
		"too long":                  {"abcd", 3, "abc"},
		"inside a character":        {"aäb", 2, "a"},
		"after a character":         {"aäb", 3, "aä"},
		"not UTF-8, short enough":   {"a\xff", 9, "a\uFFFD"},
		"not UTF-8, behind the cut": {"abc\xff", 3, "abc"},
		"nothing is left":           {"ä", 1, ""},
		"empty":                     {"", 0, ""},
		"no room":                   {"abc", -1, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := text.Cut(tt.given, tt.bytes); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestPropertyCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		given := string(rapid.SliceOf(rapid.Byte()).Draw(t, "text"))
		if rapid.Bool().Draw(t, "valid") {
			given = rapid.String().Draw(t, "valid text")
		}
		bytes := rapid.IntRange(0, 20).Draw(t, "bytes")
		got := text.Cut(given, bytes)
		if len(got) > bytes || !utf8.ValidString(got) {
			t.Fatalf("got %q of %q", got, given)
		}
		if utf8.ValidString(given) && (!strings.HasPrefix(given, got) || len(got) < min(len(given), bytes-utf8.UTFMax+1)) {
			t.Fatalf("got %q of %q: it is not the beginning, or too short", got, given)
		}
		if again := text.Cut(got, bytes); again != got {
			t.Fatalf("cut again it is %q, not %q", again, got)
		}
	})
}
