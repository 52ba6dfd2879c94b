// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package expansion

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestExpand(t *testing.T) {
	values := map[string]string{"A": "a", "REF": "$(A)", "EMPTY": "", "with space": "s"}
	tests := map[string]struct{ in, want string }{
		"nothing":             {"plain", "plain"},
		"empty":               {"", ""},
		"one":                 {"x$(A)y", "xay"},
		"twice":               {"$(A)$(A)", "aa"},
		"no second expansion": {"$(REF)", "$(A)"},
		"empty value":         {"[$(EMPTY)]", "[]"},
		"unknown stays":       {"$(B)", "$(B)"},
		"escaped":             {"$$(A)", "$(A)"},
		"escaped dollar":      {"$$$$", "$$"},
		"escaped and one":     {"$$$(A)", "$a"},
		"not closed":          {"$(A", "$(A"},
		"not closed twice":    {"$(A $(A)", "$(A $(A)"},
		"shell style":         {"$A ${A}", "$A ${A}"},
		"dollar at the end":   {"x$", "x$"},
		"empty name":          {"$()", "$()"},
		"name with a space":   {"$(with space)", "s"},
		"umlaut":              {"$ü$(A)", "$üa"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Expand(tt.in, In(values)); got != tt.want {
				t.Errorf("Expand(%q) = %q, want %q", tt.in, got, tt.want)
			}
		})
	}
}

func TestStatic(t *testing.T) {
	got := Static([]string{"cat", "$(A)", "$(POD)", "$(NONE)"}, []corev1.EnvVar{{Name: "A", Value: "$(B)"}, {Name: "POD", ValueFrom: &corev1.EnvVarSource{}}})
	if diff := cmp.Diff([]string{"cat", "$(B)", "", "$(NONE)"}, got); diff != "" {
		t.Errorf("command (-want +got):\n%s", diff)
	}
}
