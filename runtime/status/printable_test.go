// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// hostile are texts that a terminal would obey, or show turned round.
const hostile = "a\x1b[2Jb\ac\u202ed\u009be\rf\u2066g\u200fh"

// What people and programs wrote reaches no status as commands for a terminal: kubectl shows
// summaries, reasons and messages as they are.
func TestNothingInAStatusCommandsATerminal(t *testing.T) {
	records := map[string]v1alpha1.KillRecord{
		"who asked":     {Trigger: v1alpha1.TriggerRestartRequested, RequestedBy: hostile},
		"why":           {Trigger: v1alpha1.TriggerRestartRequested, Message: "restart requested: " + hostile},
		"a probe":       {Trigger: v1alpha1.TriggerLivenessProbe, Message: "failed liveness probe, will be restarted: " + hostile},
		"a summary":     {Trigger: v1alpha1.TriggerTermination, Summary: hostile},
		"the runtime":   {Trigger: v1alpha1.TriggerTermination, Outcome: v1alpha1.KillOutcomeFailed, Error: hostile, Reason: hostile},
		"a signal name": {Trigger: v1alpha1.TriggerTermination, StopSignal: hostile},
	}
	for name, r := range records {
		t.Run(name, func(t *testing.T) {
			got := NodeWorkload(NodeWorkloadInput{
				Pod: &corev1.Pod{}, Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: hostile, Message: hostile},
				Conditions: []metav1.Condition{{Type: v1alpha1.ConditionUpdateWaiting, Status: metav1.ConditionTrue, Reason: "Image", Message: hostile}},
				Kills:      AddKill(nil, r),
			})
			encoded, err := json.Marshal([]any{got.Summary, got.Reason, got.Message, got.Conditions, got.Kills})
			if err != nil {
				t.Fatal(err)
			}
			var texts any
			if err := json.Unmarshal(encoded, &texts); err != nil {
				t.Fatal(err)
			}
			for _, text := range textsIn(texts) {
				if strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }) {
					t.Errorf("%q", text)
				}
			}
			if !strings.Contains(string(encoded), `a\\u001b[2Jb`) {
				t.Errorf("the text is not shown at all: %s", encoded)
			}
		})
	}
}

// textsIn are all texts of a JSON value.
func textsIn(value any) (texts []string) {
	switch value := value.(type) {
	case string:
		return []string{value}
	case []any:
		for _, v := range value {
			texts = append(texts, textsIn(v)...)
		}
	case map[string]any:
		for _, v := range value {
			texts = append(texts, textsIn(v)...)
		}
	}
	return texts
}
