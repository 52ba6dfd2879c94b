// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package faults runs a short campaign of make faults.
package faults

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/managedworkload/managedworkload/hack/faults/campaign"
)

// A dozen faults of different kinds meet starts, syncs and kills, and no container
// sees more or less than it should.
func TestADozenFaults(t *testing.T) {
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		t.Skip("the end-to-end tests need root on Linux")
	}
	const seed = 20260
	keep := filepath.Join(os.TempDir(), "managedworkload-faults")
	result, err := campaign.Run(t.Context(), campaign.Options{
		Seed: seed, Faults: 12, Workloads: 12, Keep: keep, Progress: t.Output(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := result.Print(t.Output(), seed); err != nil {
		t.Fatal(err)
	}
	if len(result.Violations) > 0 {
		t.Errorf("%d violations; journals and logs are in %s", len(result.Violations), keep)
	}
	if len(result.Faults) != 12 || result.Kills == 0 || result.Judged == 0 || result.Outside == 0 {
		t.Errorf("%d kinds of faults, %d kills, %d of them judged outside of outages, %d records compared",
			len(result.Faults), result.Kills, result.Outside, result.Judged)
	}
}
