// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// The kubelet's priority within one sync, with RestartRequested beside
// DefinitionChanged. What is to stay stopped comes first: nothing is started for another reason.
func TestRuleOrder(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		rules []killRule
		want  []v1alpha1.KillTrigger
	}{
		"main": {
			rules: mainRules,
			want: []v1alpha1.KillTrigger{
				v1alpha1.TriggerStopRequested,
				v1alpha1.TriggerDefinitionChanged,
				v1alpha1.TriggerRestartRequested,
				v1alpha1.TriggerLivenessProbe,
				v1alpha1.TriggerStartupProbe,
				v1alpha1.TriggerResizeRequired,
			},
		},
		"sidecar": {
			rules: sidecarRules,
			want: []v1alpha1.KillTrigger{
				v1alpha1.TriggerStopRequested,
				v1alpha1.TriggerRestartRequested, // before it has started, by force
				v1alpha1.TriggerStartupProbe,
				v1alpha1.TriggerDefinitionChanged,
				v1alpha1.TriggerRestartRequested,
				v1alpha1.TriggerLivenessProbe,
				v1alpha1.TriggerResizeRequired,
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []v1alpha1.KillTrigger
			for _, rule := range tt.rules {
				got = append(got, rule.trigger)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Order of the rules differs (-want +got):\n%s", diff)
			}
		})
	}
}
