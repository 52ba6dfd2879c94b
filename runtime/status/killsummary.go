// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"strings"
	"time"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// maxSummary is the length of a kill's summary in characters.
const maxSummary = 512

// causes name the triggers in a summary.
var causes = map[v1alpha1.KillTrigger]string{
	v1alpha1.TriggerPostStartHookFailed:  "postStart hook failed",
	v1alpha1.TriggerSandboxChanged:       "sandbox changed",
	v1alpha1.TriggerUnknownState:         "container state unknown",
	v1alpha1.TriggerLivenessProbe:        "liveness probe failed",
	v1alpha1.TriggerStartupProbe:         "startup probe failed",
	v1alpha1.TriggerDefinitionChanged:    "definition changed",
	v1alpha1.TriggerWorkloadFinished:     "workload finished",
	v1alpha1.TriggerTermination:          "terminated",
	v1alpha1.TriggerGarbageCollection:    "garbage collected",
	v1alpha1.TriggerRestartAllContainers: "all containers restarted",
	v1alpha1.TriggerRestartRequested:     "restart requested",
	v1alpha1.TriggerResizeRequired:       "resize requires restart",
	v1alpha1.TriggerContainerRemoved:     "removed from the template",
	v1alpha1.TriggerOrphan:               "orphaned",
}

// usual are the reasons of an exit that its code says already.
var usual = map[string]bool{"": true, "Completed": true, "Error": true}

// KillSummary tells the story of a kill, under way or done, in one line of at
// most 512 characters:
// "liveness probe failed (3x, HTTP 503); preStop ok 4s; SIGTERM; exit 0 after 2s of 26s".
func KillSummary(r v1alpha1.KillRecord) string {
	parts := []string{cause(r)}
	if s := r.Grace.ShortenedFromSeconds; s != nil {
		parts = append(parts, fmt.Sprintf("grace shortened from %ds to %ds by the deletion", *s, r.Grace.Seconds))
	}
	parts = append(parts, preStopPart(r)...)
	parts = append(parts, stopPart(r)...)
	parts = append(parts, endPart(r)...)
	return truncateRunes(oneLine(strings.Join(parts, "; ")), maxSummary)
}

// cause tells what made the shim kill, with what the message says beyond the
// kubelet's standing words, and who asked if it was not the shim.
func cause(r v1alpha1.KillRecord) string {
	text, ok := causes[r.Trigger]
	if !ok {
		text = string(r.Trigger)
	}
	if r.RequestedBy != "" && r.RequestedBy != "shim" {
		text += " by " + r.RequestedBy
	}
	if detail := causeDetail(r); detail != "" {
		text += " (" + detail + ")"
	}
	return text
}

// standing are the kubelet's words that the trigger's name says already; what
// follows them in a message is the detail.
var standing = map[v1alpha1.KillTrigger]string{
	v1alpha1.TriggerPostStartHookFailed: "FailedPostStartHook",
	v1alpha1.TriggerLivenessProbe:       "failed liveness probe",
	v1alpha1.TriggerStartupProbe:        "failed startup probe",
	v1alpha1.TriggerDefinitionChanged:   "definition changed",
}

func causeDetail(r v1alpha1.KillRecord) string {
	if strings.HasPrefix(r.Message, "Stopping container ") {
		return ""
	}
	words, ok := standing[r.Trigger]
	if !ok {
		return otherDetail(r)
	}
	_, detail, found := strings.Cut(r.Message, words)
	if !found {
		return r.Message
	}
	detail = strings.TrimPrefix(detail, ", will be restarted")
	detail = strings.TrimLeft(detail, ":;, ")
	if strings.HasPrefix(detail, "(") && strings.HasSuffix(detail, ")") {
		detail = detail[1 : len(detail)-1]
	}
	return detail
}

// otherDetail returns the message of the triggers whose message says more than
// the trigger.
func otherDetail(r v1alpha1.KillRecord) string {
	switch r.Trigger { //nolint:exhaustive // the others' messages say no more
	case v1alpha1.TriggerSandboxChanged, v1alpha1.TriggerWorkloadFinished, v1alpha1.TriggerTermination, v1alpha1.TriggerOrphan:
		return r.Message
	}
	return ""
}

func preStopPart(r v1alpha1.KillRecord) []string {
	if r.PreStop == nil {
		return nil
	}
	switch r.PreStop.Outcome {
	case v1alpha1.PreStopSucceeded:
		return []string{fmt.Sprintf("preStop ok %ds", r.PreStop.Seconds)}
	case v1alpha1.PreStopFailed:
		return []string{fmt.Sprintf("preStop failed after %ds", r.PreStop.Seconds)}
	case v1alpha1.PreStopTimedOut:
		return []string{fmt.Sprintf("preStop timed out after %ds", r.PreStop.Seconds)}
	case v1alpha1.PreStopSkipped:
		return []string{"preStop skipped"}
	}
	if r.Phase == v1alpha1.KillPhasePreStop {
		return []string{"preStop running"}
	}
	return nil
}

// stopPart tells of the wait before the stop signal and of the signal.
func stopPart(r v1alpha1.KillRecord) []string {
	signal := r.StopSignal
	if signal == "" {
		signal = "stop signal"
	}
	switch {
	case r.Phase == v1alpha1.KillPhaseWaitingForTurn:
		return []string{"waiting for its turn"}
	case r.Phase == v1alpha1.KillPhaseStopping && r.StopTimeoutSeconds != nil:
		return []string{fmt.Sprintf("%s sent, %ds to leave", signal, *r.StopTimeoutSeconds)}
	case r.Phase == v1alpha1.KillPhaseStopping:
		return []string{signal + " sent"}
	case r.StopTime != nil && r.Outcome != v1alpha1.KillOutcomeAlreadyStopped:
		return []string{signal}
	}
	return nil
}

// endPart tells how a kill ended.
func endPart(r v1alpha1.KillRecord) []string {
	switch r.Outcome {
	case v1alpha1.KillOutcomeGraceful:
		if r.ExitCode == nil {
			return []string{"left " + duration(r)}
		}
		return []string{exit(r) + " " + duration(r)}
	case v1alpha1.KillOutcomeForced:
		parts := []string{"killed by force " + duration(r)}
		if r.ExitCode != nil {
			parts = append(parts, exit(r))
		}
		return parts
	case v1alpha1.KillOutcomeAlreadyStopped:
		if r.ExitCode == nil {
			return []string{"had already stopped"}
		}
		return []string{"had already stopped with " + exit(r)}
	case v1alpha1.KillOutcomeFailed:
		if r.Error == "" {
			return []string{"the kill failed"}
		}
		return []string{"the kill failed: " + r.Error}
	}
	if r.Phase == v1alpha1.KillPhaseDone {
		return unknownEnd(r)
	}
	return nil
}

// unknownEnd tells of a kill that is over and of which nobody knows how it ended.
func unknownEnd(r v1alpha1.KillRecord) []string {
	text := "how it ended is not known"
	if r.Error != "" {
		text += ": " + r.Error
	}
	if r.ExitCode != nil {
		return []string{text, exit(r)}
	}
	return []string{text}
}

// exit names the exit code of a record that has one, and an unusual reason.
func exit(r v1alpha1.KillRecord) string {
	text := fmt.Sprintf("exit %d", *r.ExitCode)
	if !usual[r.Reason] {
		text += " (" + r.Reason + ")"
	}
	return text
}

// duration tells how much time the container took of what StopContainer gave it,
// or where that is not known, the kill of its grace period.
func duration(r v1alpha1.KillRecord) string {
	if r.StopTime != nil && r.FinishTime != nil && r.StopTimeoutSeconds != nil {
		took := max(r.FinishTime.Sub(r.StopTime.Time), 0) / time.Second
		return fmt.Sprintf("after %ds of %ds", took, *r.StopTimeoutSeconds)
	}
	return fmt.Sprintf("after %ds of %ds", r.Grace.UsedSeconds, r.Grace.Seconds)
}

// oneLine joins the words of a text by single spaces.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// truncateRunes cuts a text to at most that many characters, as the API counts
// them, and drops what is not UTF-8.
func truncateRunes(text string, characters int) string {
	text = strings.ToValidUTF8(text, "")
	seen := 0
	for i := range text {
		if seen == characters {
			return text[:i]
		}
		seen++
	}
	return text
}
