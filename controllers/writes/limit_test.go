// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package writes

import (
	"testing"
	"unicode/utf8"
)

func TestLimit(t *testing.T) {
	for s, want := range map[string]string{"short": "short", "12345678": "12345678", "123456789": "12345...", "1234äö7": "1234äö7"[:4] + "..."} {
		if got := Limit(s, 8); got != want || !utf8.ValidString(got) {
			t.Errorf("limit(%q) = %q, want %q", s, got, want)
		}
	}
}
