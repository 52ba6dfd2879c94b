// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package text

import (
	"strings"
	"unicode/utf8"
)

// Cut returns a text of at most so many bytes that is valid UTF-8 and ends with a whole
// character: anything else would come back from the API as another text.
func Cut(s string, bytes int) string {
	bytes = max(bytes, 0)
	if len(s) > bytes+utf8.UTFMax {
		// What is cut off here begins behind the bound.
		s = s[:bytes+utf8.UTFMax]
	}
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	if len(s) <= bytes {
		return s
	}
	for bytes > 0 && !utf8.RuneStart(s[bytes]) {
		bytes--
	}
	return s[:bytes]
}
