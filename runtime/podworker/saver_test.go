// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// badDisk is a store that fails or hangs for a while.
type badDisk struct {
	Store
	mu    sync.Mutex
	err   error
	hang  chan struct{}
	panic bool
	tries int
	// removals hang until it is closed; nil if they do not.
	removals chan struct{}
}

func (s *badDisk) set(err error, hang chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.hang = err, hang
}

// withFullDisk starts a node that runs workload a and whose disk has been full since.
func withFullDisk(t *testing.T) (*fakeNode, *Pool, *badDisk) {
	t.Helper()
	n := newFakeNode(t)
	disk := &badDisk{Store: n.store}
	n.store = disk
	p := n.start(t)
	p.Update(workload("a"))
	n.settle(time.Second)
	disk.set(errors.New("no space left on device"), nil)
	return n, p, disk
}

func (s *badDisk) Remove(uid types.UID) error {
	if s.removals != nil {
		<-s.removals
	}
	return s.Store.Remove(uid)
}

func (s *badDisk) Save(c *Checkpoint) error {
	s.mu.Lock()
	s.tries++
	err, hang, panics := s.err, s.hang, s.panic
	s.panic = false
	s.mu.Unlock()
	if panics {
		panic("a bug")
	}
	if hang != nil {
		<-hang
	}
	if err != nil {
		return err
	}
	return s.Store.Save(c)
}

// A checkpoint that could not be written is written later, and people can see that.
func TestCheckpointIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, p, disk := withFullDisk(t)
		before := disk.tries
		p.Update(workload("a", generation(2), image("image:2")))
		n.settle(5 * time.Minute)
		if tries := disk.tries - before; tries < 5 || tries > 40 {
			t.Errorf("%d tries in 5 minutes, want one each 30 s to 45 s", tries)
		}
		c := meta.FindStatusCondition(n.published("a").Conditions, v1alpha1.ConditionCheckpointFailing)
		if c == nil || c.Status != metav1.ConditionTrue || c.Message != "a restart of the shim would not know the latest state: no space left on device" {
			t.Errorf("condition %+v", c)
		}
		disk.set(nil, nil)
		n.settle(time.Minute)
		got, err := disk.Load()
		if err != nil || len(got) != 1 || got[0].Generation != 2 || got[0].Pod.Spec.Containers[0].Image != "image:2" {
			t.Errorf("checkpoints %+v, error %v, want the latest", got, err)
		}
		if c := meta.FindStatusCondition(n.published("a").Conditions, v1alpha1.ConditionCheckpointFailing); c != nil {
			t.Errorf("condition %+v, want none once the checkpoint is written", c)
		}
	})
}

// What has ended counts as that only once the checkpoint has it: where its containers were removed
// before, the next shim would run it again.
func TestEndThatIsNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		disk := &badDisk{Store: n.store}
		n.store = disk
		p := n.start(t)
		p.Update(workload("a", policy(corev1.RestartPolicyOnFailure)))
		n.settle(time.Second)
		disk.set(errors.New("no space left on device"), nil)
		n.exit("a", 0)
		p.Wake("a")
		n.settle(time.Minute)
		if known := p.Known(); n.published("a").Phase != corev1.PodSucceeded || len(known) != 1 || known[0].Terminated {
			t.Errorf("phase %s, known %+v while the disk is full", n.published("a").Phase, known)
		}
		disk.set(nil, nil)
		n.settle(time.Minute)
		if known := p.Known(); len(known) != 1 || !known[0].Terminated {
			t.Errorf("known %+v once the end is written", known)
		}
	})
}

// Many changes while the disk fails do not put the next try off: the checkpoint is
// written soon after the disk works again.
func TestCheckpointIsWrittenSoonAfterManyFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, p, disk := withFullDisk(t)
		for g := range int64(20) {
			p.Update(workload("a", generation(2+g)))
			n.settle(100 * time.Millisecond)
		}
		disk.set(nil, nil)
		n.settle(5 * time.Second)
		if got, err := disk.Load(); err != nil || len(got) != 1 || got[0].Generation != 21 {
			t.Errorf("checkpoints %+v, error %v, want the latest", got, err)
		}
	})
}

// A panic in a write is a failure like another.
func TestSaverPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		n.store = &badDisk{Store: n.store, panic: true}
		n.start(t).Update(workload("a"))
		n.settle(time.Minute)
		if got, err := n.store.Load(); err != nil || len(got) != 1 {
			t.Errorf("checkpoints %+v, error %v", got, err)
		}
	})
}

// A disk that hangs at the removal of a checkpoint does not hold up the end of the
// shim, and the object is not released before the checkpoint is gone.
func TestDeletionWhileTheDiskHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		disk := &badDisk{Store: n.store, removals: make(chan struct{})}
		n.store = disk
		p := n.restore(t)
		ctx, shutDown := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = p.Run(ctx)
		}()
		p.SetUsable(Usable{OK: true, Reason: v1alpha1.ReasonRuntimeReady})
		p.Update(workload("a"))
		n.settle(time.Second)
		p.Update(workload("a", deleted(nil)))
		n.settle(time.Minute)
		if n.did("release a") {
			t.Error("released although its checkpoint is there")
		}
		shutDown()
		n.settle(time.Minute)
		select {
		case <-ended:
		default:
			t.Error("the pool runs a minute after its end was asked for")
		}
		close(disk.removals)
		<-ended
	})
}

// A kill waits for a disk that hangs, but not for long, and not again at each step.
func TestKillWhileTheDiskHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		disk := &badDisk{Store: n.store}
		n.store = disk
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Minute)
		hang := make(chan struct{})
		disk.set(nil, hang)
		rec := v1alpha1.KillRecord{ID: "1", Container: "c", Trigger: v1alpha1.TriggerLivenessProbe, StartTime: metav1.NowMicro()}
		var waits []time.Duration
		for _, phase := range []v1alpha1.KillPhase{v1alpha1.KillPhasePreStop, v1alpha1.KillPhaseStopping, v1alpha1.KillPhaseDone} {
			rec.Phase = phase
			begun := time.Now()
			p.Kill("a", plan.KillProgress{Record: rec})
			waits = append(waits, time.Since(begun))
		}
		if waits[0] != diskPatience || waits[1] != 0 || waits[2] != 0 {
			t.Errorf("the kill waited %v, want %v for its first step and nothing after that", waits, diskPatience)
		}
		n.settle(time.Second)
		c := meta.FindStatusCondition(n.published("a").Conditions, v1alpha1.ConditionCheckpointFailing)
		if c == nil || c.Reason != v1alpha1.ReasonCheckpointNotWritten {
			t.Errorf("condition %+v", c)
		}
		p.Update(workload("a", deleted(nil)))
		n.settle(time.Minute)
		n.mu.Lock()
		state := n.pods["a"]
		n.mu.Unlock()
		if state != nil && state.containers[0].State == plan.ContainerRunning {
			t.Error("it runs a minute after its deletion")
		}
		disk.set(nil, nil)
		close(hang)
		n.settle(time.Minute)
		if !n.did("release a") {
			t.Errorf("not released once the disk answers: %q", n.log())
		}
	})
}
