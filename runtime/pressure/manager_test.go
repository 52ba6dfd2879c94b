// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package pressure

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// fake is a node with workloads.
type fake struct {
	mu       sync.Mutex
	observed plan.Observations
	pods     []*corev1.Pod
	uses     map[types.UID]*plan.PodUse
	statsErr error
	// diesAfter is how long a workload takes to end, and leavesAfter how long what it leaves takes
	// to go then.
	diesAfter, leavesAfter time.Duration

	began      time.Time
	ended      []string
	ends       map[types.UID]plan.Termination
	gone       map[types.UID]time.Time
	conditions []corev1.NodeConditionType
	warned     []string
	reclaimed  int
	// frees is what is available once images are removed.
	frees plan.Observations
	// unread is why not all signals could be read.
	unread error
}

func (f *fake) Observe(context.Context) (plan.Observations, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.observed), false, f.unread
}

func (f *fake) Uses(context.Context, []*corev1.Pod, bool) (map[types.UID]*plan.PodUse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.uses, f.statsErr
}

func (f *fake) Candidates() []*corev1.Pod {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(f.pods), func(pod *corev1.Pod) bool { _, ended := f.ends[pod.UID]; return ended })
}

func (f *fake) Terminate(uid types.UID, t plan.Termination) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ends[uid], f.gone[uid] = t, time.Now().Add(f.diesAfter)
	f.ended = append(f.ended, string(uid)+" at "+time.Since(f.began).String())
	return true
}

func (f *fake) Ended(uid types.UID) (dead, released bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	over := time.Since(f.gone[uid])
	return over >= 0, over >= f.leavesAfter
}

func (f *fake) Reclaim(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reclaimed++
	if f.frees != nil {
		f.observed = f.frees
	}
	return nil
}

func (f *fake) set(observed plan.Observations) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.observed = observed
}

// seen is what has happened, and when.
func (f *fake) seen() (ended []string, conditions []corev1.NodeConditionType) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.ended), slices.Clone(f.conditions)
}

func newFake(names ...string) *fake {
	f := &fake{began: time.Now(), ends: map[types.UID]plan.Termination{}, gone: map[types.UID]time.Time{}, uses: map[types.UID]*plan.PodUse{}}
	for i, name := range names {
		f.pods = append(f.pods, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
			Spec:       corev1.PodSpec{TerminationGracePeriodSeconds: new(int64(60)), Containers: []corev1.Container{{Name: "c"}}},
		})
		f.uses[types.UID(name)] = &plan.PodUse{Memory: new(int64(i + 1)), Containers: []plan.ContainerUse{{Name: "c", Memory: new(int64(i + 1))}}}
	}
	return f
}

// has are observations of one signal: so much of 100Gi.
func has(s plan.Signal, available string) plan.Observations {
	return plan.Observations{s: {{Available: new(resource.MustParse(available)), Capacity: new(resource.MustParse("100Gi"))}}}
}

// manage runs a manager of a fake.
func manage(t *testing.T, f *fake, flags plan.EvictionFlags, change func(*Config)) *Manager {
	t.Helper()
	thresholds, err := flags.Thresholds()
	if err != nil {
		t.Fatal(err)
	}
	config := Config{
		Thresholds: thresholds, MaxGraceSeconds: 20, Transition: 5 * time.Minute, Node: f, Stats: f, Workloads: f,
		Changed: func(c []corev1.NodeConditionType) { f.mu.Lock(); defer f.mu.Unlock(); f.conditions = c },
		Warn: func(reason, message string) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.warned = append(f.warned, reason+": "+message)
		},
		Evicted: func(plan.Signal) {}, StateFile: filepath.Join(t.TempDir(), "pressure"), Logger: logr.Discard(),
	}
	if change != nil {
		change(&config)
	}
	m := New(config)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = m.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return m
}

func after(d time.Duration) { time.Sleep(d); synctest.Wait() }

// One workload a round: the next one only when the one before is gone and a round is over.
func TestOneWorkloadARound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake("small", "big", "bigger")
		f.observed, f.diesAfter = has(plan.SignalMemoryAvailable, "50Mi"), 7*time.Second
		manage(t, f, plan.EvictionFlags{Hard: plan.ThresholdTexts{plan.SignalMemoryAvailable: "100Mi"}}, nil)
		after(20 * time.Second)
		ended, _ := f.seen()
		if diff := cmp.Diff([]string{"bigger at 0s", "big at 17s"}, ended); diff != "" {
			t.Error(diff)
		}
		end := f.ends["bigger"]
		if *end.Override != 1 || end.Trigger != v1alpha1.TriggerNodePressure || end.Reason != "Evicted" || end.Condition.Type != corev1.DisruptionTarget {
			t.Errorf("ended by %+v", end)
		}
		if f.warned[0] != "EvictionThresholdMet: Attempting to reclaim memory" {
			t.Errorf("warned: %v", f.warned)
		}
	})
}

// What does not end is waited for half as long again as its grace period, at least 10 s, and 30 s
// more for what it leaves; what has ended before is waited for 30 s from then.
func TestDoesNotWaitForEver(t *testing.T) {
	for name, tc := range map[string]struct {
		diesAfter time.Duration
		next      string
	}{
		"never ends":         {time.Hour, "51s"},
		"ends late":          {38 * time.Second, "51s"},
		"leaves what it had": {3 * time.Second, "44s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake("hangs", "next")
				f.observed, f.diesAfter, f.leavesAfter = has(plan.SignalMemoryAvailable, "50Mi"), tc.diesAfter, time.Hour
				manage(t, f, plan.EvictionFlags{Hard: plan.ThresholdTexts{plan.SignalMemoryAvailable: "100Mi"}}, nil)
				after(80 * time.Second)
				ended, _ := f.seen()
				if diff := cmp.Diff([]string{"next at 0s", "hangs at " + tc.next}, ended); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// A soft threshold ends a workload once it was met for its grace period without an interruption,
// with the smaller of the two grace periods.
func TestSoftThreshold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake("w")
		f.observed = has(plan.SignalMemoryAvailable, "150Mi")
		manage(t, f, plan.EvictionFlags{
			Soft:            plan.ThresholdTexts{plan.SignalMemoryAvailable: "200Mi"},
			SoftGracePeriod: plan.ThresholdTexts{plan.SignalMemoryAvailable: "25s"},
		}, nil)
		after(15 * time.Second)
		f.set(has(plan.SignalMemoryAvailable, "250Mi"))
		after(10 * time.Second) // 20 s: not met
		f.set(has(plan.SignalMemoryAvailable, "150Mi"))
		after(30 * time.Second) // met at 30 s
		if ended, _ := f.seen(); len(ended) > 0 {
			t.Errorf("ended too early: %v", ended)
		}
		after(10 * time.Second)
		if ended, _ := f.seen(); !slices.Equal(ended, []string{"w at 1m0s"}) {
			t.Errorf("ended: %v", ended)
		}
		if end := f.ends["w"]; *end.Override != 20 {
			t.Errorf("grace period %d", *end.Override)
		}
	})
}

// What was met stays so until the minimum is available again.
func TestMinimumReclaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake("a", "b", "c")
		f.observed = has(plan.SignalMemoryAvailable, "50Mi")
		manage(t, f, plan.EvictionFlags{
			Hard:           plan.ThresholdTexts{plan.SignalMemoryAvailable: "100Mi"},
			MinimumReclaim: plan.ThresholdTexts{plan.SignalMemoryAvailable: "50Mi"},
		}, nil)
		after(5 * time.Second)
		f.set(has(plan.SignalMemoryAvailable, "149Mi"))
		after(10 * time.Second)
		f.set(has(plan.SignalMemoryAvailable, "150Mi"))
		after(20 * time.Second)
		if ended, _ := f.seen(); len(ended) != 2 {
			t.Errorf("ended: %v, want two", ended)
		}
	})
}

// New workloads are refused while the node has a condition, and for the transition period.
func TestConditionsAndAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.observed = has(plan.SignalPIDAvailable, "1")
		m := manage(t, f, plan.EvictionFlags{Hard: plan.ThresholdTexts{plan.SignalPIDAvailable: "10"}}, nil)
		after(time.Second)
		pod := newFake("new").pods[0]
		want := &plan.Refusal{Reason: "Evicted", Message: "The node had condition: [PIDPressure]. "}
		if diff := cmp.Diff(want, m.Admit(pod)); diff != "" {
			t.Error(diff)
		}
		f.set(has(plan.SignalPIDAvailable, "1000"))
		after(5*time.Minute - 2*time.Second)
		if m.Admit(pod) == nil {
			t.Error("admitted within the transition period")
		}
		after(10 * time.Second)
		if _, conditions := f.seen(); m.Admit(pod) != nil || len(conditions) > 0 {
			t.Errorf("still refused: %v, conditions %v", m.Admit(pod), conditions)
		}
	})
}

// Images and dead containers go first, and only for disk space; nothing ends where that is
// enough.
func TestReclaimsFirst(t *testing.T) {
	for name, tt := range map[string]struct {
		signal    plan.Signal
		frees     string
		reclaimed int
		ended     int
		unread    error
	}{
		"enough":                                {plan.SignalNodeFsAvailable, "11Gi", 1, 0, nil},
		"not enough":                            {plan.SignalNodeFsAvailable, "9Gi", 1, 1, nil},
		"not a disk":                            {plan.SignalMemoryAvailable, "11Gi", 0, 1, nil},
		"enough, while another is not read":     {plan.SignalNodeFsAvailable, "11Gi", 1, 0, errors.New("pid.available: no such file")},
		"not enough, while another is not read": {plan.SignalNodeFsAvailable, "9Gi", 1, 1, errors.New("pid.available: no such file")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake("w")
				f.observed, f.frees, f.unread = has(tt.signal, "5Gi"), has(tt.signal, tt.frees), tt.unread
				manage(t, f, plan.EvictionFlags{Hard: plan.ThresholdTexts{tt.signal: "10%"}}, func(c *Config) { c.Reclaimers = []Reclaimer{f} })
				after(5 * time.Second)
				if ended, _ := f.seen(); len(ended) != tt.ended || f.reclaimed != tt.reclaimed {
					t.Errorf("ended %v, reclaimed %d times", ended, f.reclaimed)
				}
			})
		})
	}
}

// reclaimerFunc removes as a test says.
type reclaimerFunc func(context.Context) error

func (f reclaimerFunc) Reclaim(ctx context.Context) error { return f(ctx) }

// A removal of images that hangs holds up neither the eviction for memory, nor for ever one for
// disk space; one that takes its time and frees enough ends nothing.
func TestReclaimThatTakesLong(t *testing.T) {
	disk, memory := has(plan.SignalNodeFsAvailable, "5Gi"), has(plan.SignalMemoryAvailable, "1Mi")
	room, both := has(plan.SignalNodeFsAvailable, "20Gi"), maps.Clone(disk)
	maps.Copy(both, memory)
	for name, tt := range map[string]struct {
		takes time.Duration // -1 is for ever
		frees plan.Observations
		then  plan.Observations
		want  map[time.Duration]int // how many workloads were ended by then
	}{
		"memory gets short meanwhile": {-1, nil, both, map[time.Duration]int{15 * time.Second: 0, 29 * time.Second: 1}},
		"for ever":                    {-1, nil, disk, map[time.Duration]int{reclaimTimeout: 0, reclaimTimeout + time.Minute: 1}},
		// Rounds are at 0, 20, 40 and 60 s, and wait for 10 s each.
		"enough, between two rounds":  {55 * time.Second, room, disk, map[time.Duration]int{time.Hour: 0}},
		"enough, while a round waits": {65 * time.Second, room, disk, map[time.Duration]int{time.Hour: 0}},
		"too little, between two rounds": {
			reclaimTimeout - 5*time.Second, disk, disk, map[time.Duration]int{reclaimTimeout - time.Second: 0, reclaimTimeout + 5*time.Second: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake("w")
				f.observed, f.leavesAfter = disk, time.Hour
				asked := 0
				slow := reclaimerFunc(func(ctx context.Context) error {
					asked++
					if tt.takes < 0 {
						<-ctx.Done()
						return ctx.Err()
					}
					time.Sleep(tt.takes)
					f.set(tt.frees)
					return nil
				})
				flags := plan.EvictionFlags{Hard: plan.ThresholdTexts{plan.SignalNodeFsAvailable: "10%", plan.SignalMemoryAvailable: "100Mi"}}
				manage(t, f, flags, func(c *Config) { c.Reclaimers = []Reclaimer{slow} })
				after(15 * time.Second)
				f.set(tt.then)
				for _, at := range slices.Sorted(maps.Keys(tt.want)) {
					after(time.Until(f.began.Add(at)))
					if ended, _ := f.seen(); len(ended) != tt.want[at] {
						t.Errorf("after %v: ended %v, want %d", at, ended, tt.want[at])
					}
				}
				if asked != 1 {
					t.Errorf("asked %d times for what is still being removed", asked)
				}
			})
		})
	}
}

// A removal that ended while the node had room says nothing about a shortage after that.
func TestARemovalOfLongAgoDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake("w")
		disk, room := has(plan.SignalNodeFsAvailable, "5Gi"), has(plan.SignalNodeFsAvailable, "20Gi")
		f.observed = disk
		asked := 0
		slow := reclaimerFunc(func(context.Context) error {
			if asked++; asked == 1 {
				time.Sleep(roundPatience + time.Second) // the next round is 9 s later
			}
			f.set(room)
			return nil
		})
		manage(t, f, plan.EvictionFlags{Hard: plan.ThresholdTexts{plan.SignalNodeFsAvailable: "10%"}}, func(c *Config) { c.Reclaimers = []Reclaimer{slow} })
		after(25 * time.Second)
		f.set(disk)
		after(time.Minute)
		if ended, _ := f.seen(); len(ended) > 0 || asked != 2 {
			t.Errorf("ended %v, asked %d times, want 2", ended, asked)
		}
	})
}

// What was short still is where it cannot be read once images are gone.
func TestReclaimOfWhatIsNotReadAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake("w")
		f.observed, f.frees = has(plan.SignalNodeFsAvailable, "5Gi"), has(plan.SignalMemoryAvailable, "11Gi")
		manage(t, f, plan.EvictionFlags{Hard: plan.ThresholdTexts{plan.SignalNodeFsAvailable: "10%"}}, func(c *Config) { c.Reclaimers = []Reclaimer{f} })
		after(5 * time.Second)
		if ended, _ := f.seen(); len(ended) != 1 || f.reclaimed != 1 {
			t.Errorf("ended %v, reclaimed %d times", ended, f.reclaimed)
		}
	})
}

// Nothing ends while it is not known what workloads use, and what is critical never does.
func TestKeepsInDoubt(t *testing.T) {
	for name, change := range map[string]func(*fake){
		"no stats": func(f *fake) { f.statsErr = errors.New("the runtime does not answer") },
		"critical": func(f *fake) { f.pods[0].Spec.PriorityClassName = "system-node-critical" },
		"unknown":  func(f *fake) { f.observed = nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake("w")
				f.observed = has(plan.SignalMemoryAvailable, "1Mi")
				change(f)
				manage(t, f, plan.EvictionFlags{Hard: plan.ThresholdTexts{plan.SignalMemoryAvailable: "100Mi"}}, nil)
				after(25 * time.Second)
				if ended, _ := f.seen(); len(ended) > 0 {
					t.Errorf("ended: %v", ended)
				}
			})
		})
	}
}

// A shim that restarts refuses what the one before did, for the rest of the transition period.
func TestRestartKeepsConditions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.observed = has(plan.SignalMemoryAvailable, "1Mi")
		flags := plan.EvictionFlags{Hard: plan.ThresholdTexts{plan.SignalMemoryAvailable: "100Mi"}}
		var config Config
		manage(t, f, flags, func(c *Config) { config = *c })
		after(time.Second)
		f.set(has(plan.SignalMemoryAvailable, "1Gi"))
		after(4 * time.Minute)
		pod := newFake("new").pods[0]
		if New(config).Admit(pod) == nil {
			t.Error("admitted after 4 minutes")
		}
		after(61 * time.Second)
		if New(config).Admit(pod) != nil {
			t.Error("refused after 5 minutes")
		}
	})
}

// A wall clock that was set back since an earlier process saw a condition keeps that no longer than
// one that was seen just now.
func TestConditionSeenByALaterClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake("a")
		f.observed = has(plan.SignalMemoryAvailable, "50Gi")
		file := filepath.Join(t.TempDir(), "pressure")
		data, err := json.Marshal(state{Seen: map[corev1.NodeConditionType]time.Time{corev1.NodeMemoryPressure: time.Now().Add(time.Hour)}})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		m := manage(t, f, plan.EvictionFlags{Hard: plan.ThresholdTexts{plan.SignalMemoryAvailable: "100Mi"}}, func(c *Config) { c.StateFile = file })
		after(4 * time.Minute)
		if got := m.Conditions(); len(got) != 1 {
			t.Errorf("after 4 min: %v", got)
		}
		after(2 * time.Minute)
		if got := m.Conditions(); len(got) != 0 {
			t.Errorf("after 6 min: %v", got)
		}
	})
}

// A disk that hangs under the state file keeps no workload from being ended, nor the process from
// its end; once it answers, the latest state is written.
func TestStateFileThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake("a", "b")
		f.observed = has(plan.SignalMemoryAvailable, "50Mi")
		answers := make(chan struct{})
		var mu sync.Mutex
		var written []string
		manage(t, f, plan.EvictionFlags{Hard: plan.ThresholdTexts{plan.SignalMemoryAvailable: "100Mi"}}, func(c *Config) {
			c.write = func(_ string, data []byte) error {
				<-answers
				mu.Lock()
				defer mu.Unlock()
				written = append(written, string(data))
				return nil
			}
		})
		after(2 * time.Minute)
		if ended, _ := f.seen(); len(ended) != 2 {
			t.Errorf("ended %v while the disk hangs, want both", ended)
		}
		seen := time.Now().UTC().Truncate(saveInterval).Format("15:04")
		close(answers)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if len(written) != 2 || !strings.Contains(written[1], seen) {
			t.Errorf("written %q, want the first and the latest, of %s", written, seen)
		}
	})
}
