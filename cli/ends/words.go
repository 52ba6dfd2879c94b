// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package ends

import (
	"fmt"
	"strings"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// causes name the triggers.
var causes = map[v1alpha1.KillTrigger]string{
	v1alpha1.TriggerPostStartHookFailed:  "postStart hook failed",
	v1alpha1.TriggerSandboxChanged:       "sandbox changed",
	v1alpha1.TriggerPodCgroupMissing:     "cgroup of the pod missing",
	v1alpha1.TriggerUnknownState:         "state unknown to the runtime",
	v1alpha1.TriggerLivenessProbe:        "liveness probe failed",
	v1alpha1.TriggerStartupProbe:         "startup probe failed",
	v1alpha1.TriggerDefinitionChanged:    "definition changed",
	v1alpha1.TriggerWorkloadFinished:     "workload finished",
	v1alpha1.TriggerTermination:          "workload terminated",
	v1alpha1.TriggerGarbageCollection:    "garbage collected",
	v1alpha1.TriggerRestartAllContainers: "all containers restarted by a rule",
	v1alpha1.TriggerRestartRequested:     "restart requested",
	v1alpha1.TriggerResizeRequired:       "resize requires a restart",
	v1alpha1.TriggerContainerRemoved:     "removed from the template",
	v1alpha1.TriggerOrphan:               "NodeWorkload gone",
	v1alpha1.TriggerEvicted:              "evicted for its disk usage",
	v1alpha1.TriggerNodePressure:         "evicted because the node was short of resources",
	v1alpha1.TriggerNodeShutdown:         "node shut down",
	v1alpha1.TriggerStopRequested:        "stop requested",
	v1alpha1.TriggerProcessesLeft:        "processes left that the runtime does not know",
}

// sources say where a grace period comes from.
var sources = map[v1alpha1.GraceSource]string{
	v1alpha1.GraceSourceOverride: "set by what asked for the kill",
	v1alpha1.GraceSourceDeletion: "from deletionGracePeriodSeconds of the NodeWorkload",
	v1alpha1.GraceSourceProbe:    "from the failed probe",
	v1alpha1.GraceSourcePod:      "from terminationGracePeriodSeconds of the template",
	v1alpha1.GraceSourceMinimum:  "the minimum, because none was set",
}

// Cause is what made the shim kill, in a few words.
func Cause(k *v1alpha1.KillRecord) string {
	if text, ok := causes[k.Trigger]; ok {
		return text
	}
	return string(k.Trigger)
}

// Outcome is how a kill ended or how far it has come, in a few words.
func Outcome(k *v1alpha1.KillRecord) string {
	switch {
	case k.Phase != v1alpha1.KillPhaseDone:
		return "under way: " + phase(k)
	case k.Outcome != "" && k.ExitedDuring == v1alpha1.KillPhasePreStop:
		return exitedWith(k) + " during preStop"
	case k.Outcome != "" && k.ExitedDuring == v1alpha1.KillPhaseWaitingForTurn:
		return exitedWith(k) + " while it waited for other containers to end"
	case k.Outcome == v1alpha1.KillOutcomeGraceful:
		return exitedWith(k)
	case k.Outcome == v1alpha1.KillOutcomeForced:
		return "forced by SIGKILL"
	case k.Outcome == v1alpha1.KillOutcomeAlreadyStopped:
		return "had already " + exitedWith(k)
	case k.Outcome == v1alpha1.KillOutcomeFailed:
		return "the kill failed"
	}
	return "how it ended is not known"
}

// Left is how much of the grace period was left when the kill had ended, in seconds.
func Left(k *v1alpha1.KillRecord) int64 {
	return Remaining(k.Grace.Seconds, k.Grace.UsedSeconds)
}

// Remaining is what is left of a time when some of it is used.
func Remaining(of, used int64) int64 { return max(of-used, 0) }

func phase(k *v1alpha1.KillRecord) string {
	switch k.Phase {
	case v1alpha1.KillPhasePreStop:
		return "the preStop hook"
	case v1alpha1.KillPhaseWaitingForTurn:
		return "waiting for other containers to end"
	case v1alpha1.KillPhaseStopping:
		return signal(k) + " sent"
	case v1alpha1.KillPhaseDone:
	}
	return string(k.Phase)
}

// SignalSent returns whether the container was sent the stop signal while it ran, for all that is known.
func SignalSent(k *v1alpha1.KillRecord) bool {
	return k.StopTime != nil && k.Outcome != v1alpha1.KillOutcomeAlreadyStopped && k.ExitedDuring == ""
}

func signal(k *v1alpha1.KillRecord) string {
	if k.StopSignal == "" {
		return "the stop signal"
	}
	return k.StopSignal
}

func exitedWith(k *v1alpha1.KillRecord) string {
	if k.ExitCode == nil {
		return "exited"
	}
	text := fmt.Sprintf("exited %d", *k.ExitCode)
	if k.Reason != "" && k.Reason != "Completed" && k.Reason != "Error" {
		text += " (" + k.Reason + ")"
	}
	return text
}

func exitSummary(e *v1alpha1.ContainerExit) string {
	if e.Summary != "" {
		return "ended by itself: " + e.Summary
	}
	return fmt.Sprintf("ended by itself: exit %d", e.ExitCode)
}

// killWords describe a kill: why, the grace period, hook and signal, the end.
func killWords(k *v1alpha1.KillRecord) []string {
	return []string{why(k), grace(k), course(k)}
}

func why(k *v1alpha1.KillRecord) string {
	text := "Requested by the shim"
	if k.RequestedBy != "" && k.RequestedBy != "shim" {
		text = "Requested by " + k.RequestedBy
	}
	if len(k.ChangedFields) > 0 {
		text += " (changed: " + strings.Join(k.ChangedFields, ", ") + ")"
	}
	if k.Message != "" {
		text += ": " + strings.TrimSuffix(strings.TrimSpace(k.Message), ".")
	}
	return text + "."
}

func grace(k *v1alpha1.KillRecord) string {
	text := fmt.Sprintf("Grace %ds", k.Grace.Seconds)
	if source, ok := sources[k.Grace.Source]; ok {
		text += " " + source
	}
	if from, to := k.Grace.ShortenedFromSeconds, k.Grace.ShortenedToSeconds; from != nil && to != nil {
		text += fmt.Sprintf(", cut from %ds to %ds while it was under way", *from, *to)
	}
	if k.Phase == v1alpha1.KillPhaseDone {
		text += fmt.Sprintf("; used %ds, left %ds", k.Grace.UsedSeconds, Left(k))
	}
	return text + "."
}

// course is what happened, in its order.
func course(k *v1alpha1.KillRecord) string {
	var parts []string
	if hook := Hook(k); hook != "" {
		parts = append(parts, hook)
	}
	if SignalSent(k) {
		text := "sent " + signal(k)
		if k.StopTimeoutSeconds != nil && k.Grace.ShortenedFromSeconds == nil { // else it began later
			text += fmt.Sprintf(" with %ds to exit", *k.StopTimeoutSeconds)
		}
		parts = append(parts, text)
	}
	if k.Paused {
		parts = append(parts, "the container was paused and could not act on it")
	}
	if k.Phase == v1alpha1.KillPhaseDone || k.Phase == v1alpha1.KillPhaseWaitingForTurn || len(parts) == 0 {
		parts = append(parts, end(k))
	}
	text := strings.Join(parts, "; ") + "."
	if strings.HasPrefix(text, "preStop") { // the field's name
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// end is the outcome with what the runtime said beyond it.
func end(k *v1alpha1.KillRecord) string {
	text := Outcome(k)
	if k.Outcome == v1alpha1.KillOutcomeForced && k.ExitCode != nil && *k.ExitCode != 137 {
		text += "; " + exitedWith(k)
	}
	if k.Error != "" {
		text += ": " + k.Error
	}
	return text
}

// Hook is what became of the preStop hook; "" if there is none.
func Hook(k *v1alpha1.KillRecord) string {
	h := k.PreStop
	if h == nil {
		return ""
	}
	text := "preStop (" + h.Handler + ") "
	if k.HookCutOff() || h.Outcome == "" && k.Phase != v1alpha1.KillPhasePreStop {
		return text + "cut off"
	}
	switch h.Outcome {
	case v1alpha1.PreStopSucceeded:
		return fmt.Sprintf("%sran %ds", text, h.Seconds)
	case v1alpha1.PreStopFailed:
		return fmt.Sprintf("%sfailed after %ds", text, h.Seconds)
	case v1alpha1.PreStopTimedOut:
		return fmt.Sprintf("%scut off after %ds", text, h.Seconds)
	case v1alpha1.PreStopSkipped:
		return text + "skipped, because there was no time"
	}
	return text + "is running"
}
