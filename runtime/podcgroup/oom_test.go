// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podcgroup

import "testing"

func TestOOMKills(t *testing.T) {
	tests := map[string]struct {
		events string
		want   int64
		known  bool
	}{
		"none":              {"low 0\nhigh 0\nmax 12\noom 0\noom_kill 0\noom_group_kill 0\n", 0, true},
		"some":              {"low 0\nhigh 0\nmax 12\noom 4\noom_kill 3\noom_group_kill 1\n", 3, true},
		"an older kernel":   {"low 0\nhigh 0\nmax 12\noom 4\n", 0, false},
		"nothing":           {"", 0, false},
		"not a number":      {"oom_kill many\n", 0, false},
		"without a newline": {"oom_kill 2", 2, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got, known := oomKills(tt.events); got != tt.want || known != tt.known {
				t.Errorf("got %d, %t, want %d, %t", got, known, tt.want, tt.known)
			}
		})
	}
}
