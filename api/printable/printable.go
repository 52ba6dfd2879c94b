// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package printable

import (
	"fmt"
	"strings"
	"unicode"
)

// Text replaces what a terminal would take for a command: control characters and those that
// change the direction of text, as backslash and number. Line breaks and tabs stay.
func Text(text string) string {
	if !strings.ContainsFunc(text, unsafe) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if unsafe(r) {
			fmt.Fprintf(&b, "\\u%04x", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Line is Text with spaces for line breaks and tabs.
func Line(text string) string {
	return Text(strings.NewReplacer("\n", " ", "\t", " ").Replace(text))
}

func unsafe(r rune) bool {
	return unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) || r == unicode.ReplacementChar
}
