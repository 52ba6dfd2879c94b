// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// Beside a kubelet nothing is looked at unless a flag says so; a node that the shim registers has
// the kubelet's thresholds, as long as no others are given.
func TestEvictionOptions(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		args     []string
		ownsNode bool
		want     int
		err      string
	}{
		"beside a kubelet":       {nil, false, 0, ""},
		"a flag says so":         {[]string{"--eviction-hard=memory.available<1Gi,nodefs.available<10%"}, false, 2, ""},
		"a soft one says so":     {[]string{"--eviction-soft=pid.available<10", "--eviction-soft-grace-period=pid.available=1m"}, false, 1, ""},
		"without a kubelet":      {nil, true, 5, ""},
		"others":                 {[]string{"--eviction-hard=memory.available<1Gi"}, true, 1, ""},
		"a soft one beside them": {[]string{"--eviction-soft=pid.available<10", "--eviction-soft-grace-period=pid.available=1m"}, true, 6, ""},
		"off without a kubelet":  {[]string{"--eviction-hard=memory.available<0%"}, true, 0, ""},
		"a mistake":              {[]string{"--eviction-hard=memory.available=1Gi"}, false, 0, `--eviction-hard: "memory.available=1Gi" is not of the form`},
		"an unknown signal":      {[]string{"--eviction-minimum-reclaim=disk=1Gi"}, false, 0, "--eviction-minimum-reclaim"},
		"a negative period":      {[]string{"--eviction-pressure-transition-period=-1s"}, false, 0, "--eviction-pressure-transition-period must not be negative"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var e evictionOptions
			flags := pflag.NewFlagSet("shim", pflag.ContinueOnError)
			e.addFlags(flags)
			if err := flags.Parse(tt.args); err != nil {
				t.Fatal(err)
			}
			err := e.complete(tt.ownsNode)
			if len(e.thresholds) != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%d thresholds, error %v; want %d, %q", len(e.thresholds), err, tt.want, tt.err)
			}
			if tt.err == "" && e.TransitionPeriod != 5*time.Minute {
				t.Errorf("transition period %v", e.TransitionPeriod)
			}
		})
	}
}
