// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package simnode

import (
	"cmp"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/status"
)

// stage is how far a share is:
//
//	creating -> starting -> running -> pulling -> stopping -> starting
//
// A bad image stays in creating or pulling; while pulling the old container runs.
//
// A NodeWorkload that is deleted ends from any stage.
type stage int

const (
	stageCreating stage = iota // no container yet
	stageStarting              // the container runs and is not ready
	stageRunning
	stagePulling  // the old container runs on
	stageStopping // the old container is being killed
	stageEnded
)

// Times are how long the steps of a node take.
type Times struct {
	// Create is from the first sight of a NodeWorkload until its container runs, Pull
	// until a changed image is there, Stop until the old container has ended, and Ready
	// until a container that runs is ready.
	Create, Pull, Stop, Ready time.Duration
}

// Change is how long a node takes to change to another image.
func (t Times) Change() time.Duration { return t.Pull + t.Stop + t.Ready }

// Share is what a node remembers of one NodeWorkload. The zero value is one that was not
// seen yet.
type Share struct {
	stage stage
	since time.Time
	// target is the hash of the template that the stage is on its way to, and hash that of
	// the one that runs, image its image.
	target, hash, image string
	// instance counts the containers that were made, and restarts is their restart count.
	instance, restarts int
	startedAt          time.Time
	// failing: the readiness probe fails.
	failing   bool
	kills     []v1alpha1.KillRecord
	killCount int64
	last      *v1alpha1.NodeWorkloadStatus
}

// SetFailing makes the readiness probe of what runs fail or succeed.
func (s *Share) SetFailing(failing bool) { s.failing = failing }

// Crash restarts the container, which is ready again at once.
func (s *Share) Crash(now time.Time) {
	if s.stage == stageRunning {
		s.restarts++
		s.startContainer(now)
	}
}

// Kills is how many containers were killed.
func (s *Share) Kills() int64 { return s.killCount }

// Ended says that nothing is left of a NodeWorkload that is being deleted.
func (s *Share) Ended() bool { return s.stage == stageEnded }

// Step brings a share to where it is now, and returns the status to report and when to look
// again, 0 if nothing happens by itself any more.
func (s *Share) Step(nw *v1alpha1.NodeWorkload, t Times, now time.Time) (st *v1alpha1.NodeWorkloadStatus, wait time.Duration) {
	hash := template.Hash(&nw.Spec.Template)
	image := nw.Spec.Template.Spec.Containers[0].Image
	if s.since.IsZero() {
		s.enter(stageCreating, hash, now)
	}
	for s.advance(nw, hash, image, t, now) {
	}
	report := s.report(nw, now)
	s.last = &report
	if d := s.duration(image, t); d > 0 {
		wait = max(s.since.Add(d).Sub(now), time.Millisecond)
	}
	return &report, wait
}

// enter begins a stage.
func (s *Share) enter(next stage, target string, now time.Time) {
	s.stage, s.target, s.since = next, target, now
}

// duration is how long the stage lasts, 0 for as long as nothing changes.
func (s *Share) duration(image string, t Times) time.Duration {
	switch s.stage {
	case stageCreating, stagePulling:
		if image == BadImage {
			return 0
		}
		return cmp.Or(map[stage]time.Duration{stageCreating: t.Create, stagePulling: t.Pull}[s.stage], 1)
	case stageStarting:
		return max(t.Ready, 1)
	case stageStopping:
		return max(t.Stop, 1)
	case stageRunning, stageEnded:
	}
	return 0
}

// advance makes at most one transition and says whether it did.
func (s *Share) advance(nw *v1alpha1.NodeWorkload, hash, image string, t Times, now time.Time) bool {
	if nw.DeletionTimestamp != nil {
		return s.end(hash, now)
	}
	if s.react(hash, image, now) {
		return true
	}
	d := s.duration(image, t)
	return d > 0 && now.Sub(s.since) >= d && s.finish(hash, image, now)
}

// end ends what runs.
func (s *Share) end(hash string, now time.Time) bool {
	if s.stage == stageEnded {
		return false
	}
	if s.instance > 0 {
		s.kill(v1alpha1.TriggerTermination, now)
		s.finishKill(now)
	}
	s.enter(stageEnded, hash, now)
	return true
}

// react does what another template asks for at once.
func (s *Share) react(hash, image string, now time.Time) bool {
	switch {
	case s.stage == stageRunning && s.hash != hash && s.image == image:
		s.hash = hash // nothing of it needs a restart
	case s.stage == stageRunning && s.hash != hash:
		s.enter(stagePulling, hash, now)
	case s.stage == stagePulling && s.hash == hash:
		s.enter(stageRunning, hash, now) // reverted before anything was killed
	case s.stage == stagePulling && s.target != hash:
		s.enter(stagePulling, hash, now)
	default:
		return false
	}
	return true
}

// finish enters the stage after one whose time is over.
func (s *Share) finish(hash, image string, now time.Time) bool {
	switch s.stage {
	case stagePulling:
		s.kill(v1alpha1.TriggerDefinitionChanged, now)
		s.enter(stageStopping, hash, now)
	case stageCreating, stageStopping:
		s.finishKill(now)
		if image == BadImage { // it came too late to wait before the kill
			s.enter(stageCreating, hash, now)
			return true
		}
		s.hash, s.image = hash, image
		s.startContainer(now)
		s.enter(stageStarting, hash, now)
	case stageStarting:
		s.enter(stageRunning, hash, now)
	case stageRunning, stageEnded:
		return false
	}
	return true
}

func (s *Share) startContainer(now time.Time) {
	s.instance++
	s.startedAt = now
}

// kill begins the kill of the container.
func (s *Share) kill(trigger v1alpha1.KillTrigger, now time.Time) {
	s.killCount++
	s.kills = status.AddKill(s.kills, v1alpha1.KillRecord{
		ID: fmt.Sprintf("kill-%d-%d", now.UnixNano(), s.killCount), Container: "app", ContainerID: s.containerID(),
		Trigger: trigger, RequestedBy: "shim", Message: "Container app definition changed, will be restarted",
		Phase: v1alpha1.KillPhaseStopping, Grace: v1alpha1.KillGrace{Seconds: 30, Source: v1alpha1.GraceSourcePod},
		StartTime: metav1.NewMicroTime(now), Sequence: s.killCount,
	})
}

// finishKill ends the kill under way, if there is one.
func (s *Share) finishKill(now time.Time) {
	if len(s.kills) == 0 || s.kills[0].Phase == v1alpha1.KillPhaseDone {
		return
	}
	done := s.kills[0]
	done.Phase, done.Outcome, done.Summary = v1alpha1.KillPhaseDone, v1alpha1.KillOutcomeGraceful, ""
	done.FinishTime = &metav1.MicroTime{Time: now}
	s.kills = status.AddKill(s.kills, done)
	s.restarts++
}

func (s *Share) containerID() string { return fmt.Sprintf("%064x", s.instance) }
