// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shutdown

import (
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/managedworkload/managedworkload/runtime/hostfs"
)

// The delay of other software is read as systemd reads it: the last name counts, and of two files of
// one name that in the later directory. What is not understood may be any.
func TestOthersDelay(t *testing.T) {
	const vendor, run, etc = "/usr/lib/systemd/logind.conf.d/", "/run/systemd/logind.conf.d/", "/etc/systemd/logind.conf.d/"
	known := func(d time.Duration) delay { return delay{found: true, known: true, delay: d} }
	tests := map[string]struct {
		files map[string]string
		want  delay
	}{
		"none":                  {nil, delay{}},
		"seconds":               {map[string]string{etc + "50-a.conf": "90"}, known(90 * time.Second)},
		"units":                 {map[string]string{etc + "50-a.conf": "1min 30s"}, known(90 * time.Second)},
		"without end":           {map[string]string{etc + "50-a.conf": "infinity"}, known(math.MaxInt64)},
		"not understood":        {map[string]string{etc + "50-a.conf": "soon"}, delay{found: true}},
		"the last name":         {map[string]string{etc + "50-a.conf": "90", vendor + "60-a.conf": "30"}, known(30 * time.Second)},
		"of one name, /etc":     {map[string]string{vendor + "50-a.conf": "90", etc + "50-a.conf": "30"}, known(30 * time.Second)},
		"of one name, /run":     {map[string]string{vendor + "50-a.conf": "30", run + "50-a.conf": "90"}, known(90 * time.Second)},
		"no configuration":      {map[string]string{etc + "50-a.conf.bak": "90"}, delay{}},
		"ours":                  {map[string]string{etc + dropIn: "90", etc + lastDropIn: "90"}, delay{}},
		"ours beside another's": {map[string]string{etc + "50-a.conf": "30", etc + lastDropIn: "90"}, known(30 * time.Second)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for path, span := range tt.files {
				path = filepath.Join(root, path)
				if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte("[Login]\nInhibitDelayMaxSec="+span+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := othersDelay(hostfs.Root(root)); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}
