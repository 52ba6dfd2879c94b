// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package writes

import "github.com/managedworkload/managedworkload/api/printable"

// Limit replaces in s what a terminal would take for a command, and cuts it to at most n bytes,
// at a character's boundary, and marks the cut.
func Limit(s string, n int) string {
	const mark = "..."
	s = printable.Text(s)
	if len(s) <= n {
		return s
	}
	end := n - len(mark)
	for end > 0 && s[end]&0xC0 == 0x80 {
		end--
	}
	return s[:end] + mark
}
