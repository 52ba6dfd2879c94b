// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"slices"
	"strings"
	"time"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// records: what the API said of a kill is what the container saw, and every kill
// that a container saw has a record.
func (j *judge) records() {
	recorded := map[string]bool{}
	for i := range j.Records {
		r := &j.Records[i]
		id := r.ContainerID[strings.LastIndex(r.ContainerID, "/")+1:] // with or without the runtime's name
		recorded[id] = true
		l := j.byID[id]
		switch {
		case l == nil:
			continue // it was killed before its program ran
		case j.lostShim(l):
			j.exempt("runtime shim killed")
			continue
		case r.Phase == v1alpha1.KillPhaseDone:
		case j.unreported(l):
			j.exempt("end of a record not in the restored etcd")
			continue
		case j.unwritten(l):
			j.exempt("record lost with the shim while its disk took no checkpoint")
			continue
		default:
			j.violation("%s: last seen %s, and the record does not end: %s since %s", l, clock(l.Last), r.Phase, clock(r.StartTime.Time))
			continue
		}
		j.report.Judged++
		if wrong := j.disagreement(r, l); wrong != "" {
			j.violation("%s: hook %s, stop signal %s, last seen %s, stopped %t with %d: %s; record %s %s %s",
				l, clock(l.Hook), clock(l.Term), clock(l.Last), l.Stopped, l.Code, wrong, r.Trigger, r.Outcome, r.Summary)
		}
	}
	for i := range j.Lives {
		l := &j.Lives[i]
		switch {
		case l.Asked().IsZero() || recorded[l.ID]:
		case j.lostShim(l):
			j.exempt("runtime shim killed")
		case j.unreported(l):
			j.exempt("record not in the restored etcd")
		case j.unwritten(l):
			j.exempt("record lost with the shim while its disk took no checkpoint")
		default:
			j.violation("%s: hook %s, stop signal %s, last seen %s, and no record of it", l, clock(l.Hook), clock(l.Term), clock(l.Last))
		}
	}
}

// unwritten reports that the kill began while the state disk took no checkpoints, and
// that the shim was killed before it could write one.
func (j *judge) unwritten(l *Life) bool {
	began := l.began()
	if asked := j.firstAsk(l); !asked.IsZero() && asked.Before(began) {
		began = asked
	}
	return slices.ContainsFunc(j.Faults, func(disk Fault) bool {
		// A kill waits for the disk for a moment before it begins.
		return disk.Unwritten && disk.From.Before(began) && disk.To.Add(diskPatience).After(began) &&
			slices.ContainsFunc(j.Faults, func(f Fault) bool {
				return f.Forgetful && f.From.After(began.Add(-diskPatience)) && f.From.Before(disk.To.Add(saveRetry))
			})
	})
}

// unreported reports that there was no object to report the kill in: a restored etcd
// lacks it.
func (j *judge) unreported(l *Life) bool {
	return slices.ContainsFunc(j.Faults, func(f Fault) bool {
		return j.unknownIn(&f, l) && l.Last.After(f.From.Add(-reaction))
	})
}

// disagreement is what the record says and the journal does not, "" if nothing.
func (j *judge) disagreement(r *Record, l *Life) string {
	if wrong := outcomeDisagrees(r, l); wrong != "" {
		return wrong
	}
	if r.PreStop != nil && r.PreStop.Outcome == v1alpha1.PreStopSucceeded && l.Hook.IsZero() && !j.hookBeforeReady(l) && !j.leftDuringHook(r, l) {
		return "the hook never reached the container"
	}
	if r.UID != l.UID {
		return "the record is on the NodeWorkload " + r.UID
	}
	return j.triggerDisagrees(r, l)
}

// leftDuringHook reports that the program left by itself beside its hook, as the record says, or as the
// runtime's answer about the hook shows: what the hook sends reaches it no more.
func (j *judge) leftDuringHook(r *Record, l *Life) bool {
	return l.Stopped && l.Term.IsZero() && (r.ExitedDuring == v1alpha1.KillPhasePreStop ||
		slices.ContainsFunc(j.byContainer[l.ID], func(c *Call) bool {
			return c.Method == "ExecSync" && !c.Made.IsZero() && c.Made.Before(l.Last) && c.Ended.After(l.Last)
		}))
}

func outcomeDisagrees(r *Record, l *Life) string {
	switch r.Outcome {
	case v1alpha1.KillOutcomeGraceful:
		if !l.Stopped {
			return "it was killed by SIGKILL"
		}
	case v1alpha1.KillOutcomeForced:
		if l.Stopped {
			return "it left by itself"
		}
	case v1alpha1.KillOutcomeAlreadyStopped:
		if !l.Stopped && r.ExitedDuring == "" {
			return "it was killed by SIGKILL"
		}
	case v1alpha1.KillOutcomeFailed:
		return ""
	}
	if r.ExitCode != nil && l.Stopped && r.Outcome != "" && int(*r.ExitCode) != l.Code {
		return "another exit code"
	}
	return ""
}

// kinds are the requests that explain a trigger.
var kinds = map[v1alpha1.KillTrigger]RequestKind{
	v1alpha1.TriggerTermination:       Delete,
	v1alpha1.TriggerDefinitionChanged: Change,
	v1alpha1.TriggerRestartRequested:  Restart,
	v1alpha1.TriggerLivenessProbe:     FailProbe,
}

// triggerDisagrees compares what the record says asked for the kill with what was
// asked for.
func (j *judge) triggerDisagrees(r *Record, l *Life) string {
	kind, known := kinds[r.Trigger]
	if !known || j.rolledBack(l) {
		return ""
	}
	by := l.Last
	if l.Stopped && l.Asked().IsZero() {
		if r.Trigger == v1alpha1.TriggerLivenessProbe {
			return "" // it had left by itself: nothing answered its probe, and the runtime had not noted its end
		}
		if slices.Contains([]v1alpha1.KillOutcome{v1alpha1.KillOutcomeAlreadyStopped, v1alpha1.KillOutcomeFailed, ""}, r.Outcome) {
			by = j.asked(l, by) // it had left by itself, and the record claims nothing else
		}
	}
	for _, q := range j.coveringBy(l, by) {
		if q.Kind == kind {
			return ""
		}
	}
	return "nothing of the kind was asked for by " + by.Format(time.TimeOnly)
}

// leftBehind: nothing is, but for empty runtime shims that containerd does not know:
// it was starting them when it was killed or the caller was gone, or has removed their
// sandboxes.
func (j *judge) leftBehind() {
	for _, shim := range j.EmptyShims {
		lost := slices.ContainsFunc(j.Faults, func(f Fault) bool {
			return f.Forgets && !shim.Started.After(f.From.Add(beat)) && shim.Started.Add(makingSandbox).After(f.From)
		})
		switch {
		case lost:
			j.exempt("empty runtime shim that containerd lost when it was killed")
		case j.sandboxCutOff(shim):
			j.exempt("empty runtime shim that containerd lost when its caller was gone")
		case j.removed(shim.Sandbox):
			j.exempt("empty runtime shim of a sandbox that containerd has removed")
		default:
			j.violation("%s, started at %s", shim.Name, clock(shim.Started))
		}
	}
	for _, thing := range j.LeftBehind {
		if j.mountOfLostShim(thing) {
			j.exempt("root file system of a sandbox whose runtime shim was killed, and that containerd has removed")
			continue
		}
		j.violation("%s", thing)
	}
}

// mountOfLostShim reports that a thing is the root file system of a sandbox whose runtime
// shim was killed: containerd gives the clean-up of such a one five seconds, and removes
// the sandbox although the clean-up did not end.
func (j *judge) mountOfLostShim(thing string) bool {
	return slices.ContainsFunc(j.Faults, func(f Fault) bool {
		return f.Killed && f.Sandbox != "" && j.removed(f.Sandbox) &&
			strings.HasPrefix(thing, "mount ") && strings.HasSuffix(thing, "/k8s.io/"+f.Sandbox+"/rootfs")
	})
}
