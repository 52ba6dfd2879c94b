// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// Whoever changed the template asked for what is killed for it, and for nothing else.
func TestAsks(t *testing.T) {
	const person = "kubectl"
	for name, tt := range map[string]struct {
		trigger   v1alpha1.KillTrigger
		redefined bool
		changedBy string
		want      string
	}{
		"definition":                {v1alpha1.TriggerDefinitionChanged, false, person, person},
		"restart":                   {v1alpha1.TriggerRestartRequested, false, person, person},
		"resize":                    {v1alpha1.TriggerResizeRequired, false, person, person},
		"removed":                   {v1alpha1.TriggerContainerRemoved, false, person, person},
		"pod definition":            {v1alpha1.TriggerSandboxChanged, true, person, person},
		"sandbox that is not ready": {v1alpha1.TriggerSandboxChanged, false, person, RequestedByShim},
		"probe":                     {v1alpha1.TriggerLivenessProbe, false, person, RequestedByShim},
		"without a field manager":   {v1alpha1.TriggerDefinitionChanged, false, "", RequestedByShim},
	} {
		t.Run(name, func(t *testing.T) {
			r := SyncRequest{RequestedBy: RequestedByShim, ChangedBy: tt.changedBy, Actions: Actions{Redefined: tt.redefined}}
			if got := r.Asks(tt.trigger); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
