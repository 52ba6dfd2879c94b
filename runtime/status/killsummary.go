// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"strings"
	"time"

	"github.com/managedworkload/managedworkload/api/printable"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// maxSummary is the length of a kill's summary in characters.
const maxSummary = 512

// causes name the triggers in a summary.
var causes = map[v1alpha1.KillTrigger]string{
	v1alpha1.TriggerPostStartHookFailed:  "postStart hook failed",
	v1alpha1.TriggerSandboxChanged:       "sandbox changed",
	v1alpha1.TriggerPodCgroupMissing:     "pod cgroup missing",
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
	v1alpha1.TriggerEvicted:              "evicted",
	v1alpha1.TriggerNodePressure:         "evicted for node pressure",
	v1alpha1.TriggerNodeShutdown:         "node shutdown",
	v1alpha1.TriggerStopRequested:        "stop requested",
	v1alpha1.TriggerProcessesLeft:        "processes left",
}

// usual are the reasons of an exit that its code says already.
var usual = map[string]bool{"": true, "Completed": true, "Error": true}

// KillSummary describes a kill, under way or done, in one line of at most 512
// characters:
// "liveness probe failed (3x, HTTP 503); preStop ok 4s; SIGTERM; exited 0 within 3s (26s allowed)".
func KillSummary(r v1alpha1.KillRecord) string {
	parts := []string{cause(r)}
	if shortened(r) && r.Outcome != v1alpha1.KillOutcomeForced {
		parts = append(parts, graceCut(r))
	}
	parts = append(parts, preStopPart(r)...)
	parts = append(parts, stopPart(r)...)
	if r.Paused {
		parts = append(parts, "paused, so it could not act on it")
	}
	parts = append(parts, endPart(r)...)
	return shown(oneLine(strings.Join(parts, "; ")), maxSummary)
}

// shortened reports whether the grace period was cut while the kill was under way. A record comes with the
// object's status, which people may write.
func shortened(r v1alpha1.KillRecord) bool {
	return r.Grace.ShortenedFromSeconds != nil && r.Grace.ShortenedToSeconds != nil
}

// graceCut is by how much the grace period was cut while the kill was under way, by
// what was asked for: not counting the time that had passed until then.
func graceCut(r v1alpha1.KillRecord) string {
	return fmt.Sprintf("grace cut from %ds to %ds", *r.Grace.ShortenedFromSeconds, *r.Grace.ShortenedToSeconds)
}

// cause says what made the shim kill, with what the message says beyond the
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
	v1alpha1.TriggerRestartRequested:    "restart requested",
	v1alpha1.TriggerStopRequested:       "stop requested",
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
	if detail == "" && r.Trigger == v1alpha1.TriggerDefinitionChanged {
		return fieldNames(r.ChangedFields)
	}
	if strings.HasPrefix(detail, "(") && strings.HasSuffix(detail, ")") {
		detail = detail[1 : len(detail)-1]
	}
	return detail
}

// maxFieldNames is how many changed fields a summary names.
const maxFieldNames = 3

// fieldNames lists the first of the changed fields: "image, env, args and 2 more".
func fieldNames(fields []string) string {
	names := strings.Join(fields[:min(len(fields), maxFieldNames)], ", ")
	if more := len(fields) - maxFieldNames; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return names
}

// otherDetail returns the message of the triggers whose message says more than
// the trigger.
func otherDetail(r v1alpha1.KillRecord) string {
	switch r.Trigger { //nolint:exhaustive // the others' messages say no more
	case v1alpha1.TriggerSandboxChanged, v1alpha1.TriggerWorkloadFinished, v1alpha1.TriggerTermination, v1alpha1.TriggerOrphan,
		v1alpha1.TriggerEvicted, v1alpha1.TriggerNodePressure, v1alpha1.TriggerNodeShutdown, v1alpha1.TriggerProcessesLeft:
		return r.Message
	}
	return ""
}

func preStopPart(r v1alpha1.KillRecord) []string {
	if r.PreStop == nil {
		return nil
	}
	if r.HookCutOff() {
		return []string{"preStop cut off"}
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

// stopPart is the wait before the stop signal, and the signal.
func stopPart(r v1alpha1.KillRecord) []string {
	signal := r.StopSignal
	if signal == "" {
		signal = "stop signal"
	}
	switch {
	case r.Phase == v1alpha1.KillPhaseWaitingForTurn:
		return []string{"waiting for its turn"}
	case r.Phase == v1alpha1.KillPhaseStopping && r.StopTimeoutSeconds != nil:
		return []string{fmt.Sprintf("%s sent, %ds allowed", signal, *r.StopTimeoutSeconds)}
	case r.Phase == v1alpha1.KillPhaseStopping:
		return []string{signal + " sent"}
	case r.StopTime != nil && r.Outcome != v1alpha1.KillOutcomeAlreadyStopped && r.ExitedDuring == "":
		return []string{signal}
	}
	return nil
}

// endPart is how a kill ended.
func endPart(r v1alpha1.KillRecord) []string {
	switch {
	case r.Outcome == "":
	case r.ExitedDuring == v1alpha1.KillPhasePreStop:
		return []string{exitedWith(r) + " during preStop"}
	case r.ExitedDuring == v1alpha1.KillPhaseWaitingForTurn:
		return []string{exitedWith(r) + " while it waited for its turn"}
	}
	switch r.Outcome {
	case v1alpha1.KillOutcomeGraceful:
		took, allowed := stopTime(r)
		return []string{fmt.Sprintf("%s within %ds (%ds allowed)", exitedWith(r), took/time.Second+1, allowed)}
	case v1alpha1.KillOutcomeForced:
		return forcedEnd(r)
	case v1alpha1.KillOutcomeAlreadyStopped:
		return []string{"had already " + exitedWith(r)}
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

// forcedEnd is the end by SIGKILL. Its exit code is named where it is another one.
func forcedEnd(r v1alpha1.KillRecord) []string {
	took, allowed := stopTime(r)
	end := fmt.Sprintf("SIGKILL after %ds (%ds allowed)", took/time.Second, allowed)
	if shortened(r) {
		end = fmt.Sprintf("SIGKILL after %ds (%s)", r.Grace.UsedSeconds, graceCut(r))
	}
	if r.ExitCode != nil && (*r.ExitCode != exitCodeSIGKILL || !usual[r.Reason]) {
		return []string{end, exitedWith(r)}
	}
	return []string{end}
}

// exitCodeSIGKILL is the exit code of a process that SIGKILL ended.
const exitCodeSIGKILL = 137

// unknownEnd is the end of a kill that nothing observed.
func unknownEnd(r v1alpha1.KillRecord) []string {
	text := "how it ended is not known"
	if r.Error != "" {
		text += ": " + r.Error
	}
	if r.ExitCode != nil {
		return []string{text, exitedWith(r)}
	}
	return []string{text}
}

// exitedWith names the exit code, where there is one, and an unusual reason.
func exitedWith(r v1alpha1.KillRecord) string {
	if r.ExitCode == nil {
		return "exited"
	}
	text := fmt.Sprintf("exited %d", *r.ExitCode)
	if !usual[r.Reason] {
		text += " (" + r.Reason + ")"
	}
	return text
}

// stopTime is how much time the container took of what StopContainer allowed, in
// seconds, or where that is not known, the kill of its grace period. The record's
// times are the wall clock's, which may have been set meanwhile: they count only as
// far as the seconds agree that the shim counted itself. Where the kill was shortened, what
// StopContainer was given last began later than the stop.
func stopTime(r v1alpha1.KillRecord) (took time.Duration, allowed int64) {
	used := time.Duration(r.Grace.UsedSeconds) * time.Second
	if !shortened(r) && r.StopTime != nil && r.FinishTime != nil && r.StopTimeoutSeconds != nil {
		stop := r.FinishTime.Sub(r.StopTime.Time)
		if stop >= 0 && stop < used+clockTolerance {
			return stop, *r.StopTimeoutSeconds
		}
	}
	return used, r.Grace.Seconds
}

// clockTolerance is what rounding makes of two times that agree.
const clockTolerance = 2 * time.Second

// shown is a text as people may be shown it, of at most that many characters.
func shown(text string, characters int) string {
	return truncateRunes(printable.Text(strings.ToValidUTF8(text, "")), characters)
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
