// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package diskusage

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/runtime/hostfs"
	"github.com/managedworkload/managedworkload/runtime/panics"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

const (
	// interval is the time between two measurements of a pod: the kubelet's between two looks
	// for evictions. (kubelet kubelet.go:evictionMonitoringPeriod)
	interval = 10 * time.Second
	// restFactor is how much longer than its last measurement a pod is left alone, so that a
	// large one takes at most a tenth of a CPU.
	restFactor = 9
	// longest is how long a measurement may take. What it has found until then counts.
	longest = time.Minute
	// atOnce is how many pods are measured at the same time.
	atOnce = 4
)

// Pod is one that is to be measured.
type Pod struct {
	UID             types.UID
	Namespace, Name string
	// Urgent: it does not wait for its turn.
	Urgent bool
}

// Runtime is what the container runtime says about its disk.
type Runtime interface {
	// WritableLayers returns how many bytes the containers of a pod have written into their
	// root file systems, by name.
	WritableLayers(ctx context.Context, uid types.UID) (map[string]int64, error)
	// ImageFilesystem returns a path of the node where the runtime keeps its images.
	ImageFilesystem(ctx context.Context) (string, error)
}

// Config of a Keeper.
type Config struct {
	// Pods returns those that are to be measured.
	Pods func() []Pod
	// Places returns where a pod keeps what counts.
	Places func(Pod) Places
	// Measured takes what a pod uses; with an error it is a part of that. It must not block.
	Measured func(uid types.UID, used plan.DiskUsage, err error)
	Runtime  Runtime
	// PodsDir holds the pods, and HostRoot is the node's file system.
	PodsDir  string
	HostRoot hostfs.Root
	Logger   logr.Logger
}

// Keeper measures pods, each again and again.
type Keeper struct {
	config   Config
	patience *hostfs.Patience
	kicked   chan struct{}
	turns    chan struct{}
	// own is whether the runtime has a disk of its own, nil before that is known.
	own atomic.Pointer[bool]

	mu   sync.Mutex
	pods map[types.UID]*turn
}

// turn is when a pod is measured next.
type turn struct {
	next    time.Time
	running bool
	// said is the error that was logged last.
	said string
}

// New returns a keeper that measures nothing before Run.
func New(config Config) *Keeper {
	return &Keeper{
		config: config, patience: hostfs.NewPatience(hostfs.DefaultPatience),
		kicked: make(chan struct{}, 1), turns: make(chan struct{}, atOnce), pods: map[types.UID]*turn{},
	}
}

// Kick has the urgent pods measured at once. It does not block.
func (k *Keeper) Kick() {
	select {
	case k.kicked <- struct{}{}:
	default:
	}
}

// Run measures pods until the context is done, and returns when no measurement is under way.
func (k *Keeper) Run(ctx context.Context) error {
	var measurements sync.WaitGroup
	defer measurements.Wait()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-k.kicked:
			k.start(ctx, &measurements, false)
		case <-ticker.C:
			k.start(ctx, &measurements, true)
		}
	}
}

// start starts the measurements of the pods whose turn it is, and forgets those that are gone.
func (k *Keeper) start(ctx context.Context, measurements *sync.WaitGroup, all bool) {
	pods := k.config.Pods()
	k.mu.Lock()
	defer k.mu.Unlock()
	known := k.pods
	k.pods = make(map[types.UID]*turn, len(pods))
	for _, pod := range pods {
		t := known[pod.UID]
		if t == nil {
			t = &turn{}
		}
		k.pods[pod.UID] = t
		due := pod.Urgent || all && time.Until(t.next) <= 0
		if t.running || !due {
			continue
		}
		t.running = true
		measurements.Go(func() {
			_ = panics.Contain(k.config.Logger, "the disk usage of pod "+string(pod.UID), func() error {
				k.take(ctx, pod, t)
				return nil
			})
		})
	}
}

// take measures one pod when there is room for it.
func (k *Keeper) take(ctx context.Context, pod Pod, t *turn) {
	select {
	case <-ctx.Done():
		return
	case k.turns <- struct{}{}:
	}
	defer func() { <-k.turns }()
	begun, said := time.Now(), errPanicked
	defer func() { k.rest(pod, t, time.Since(begun), said) }()
	used, bound, err := k.measure(ctx, pod)
	said = errors.Join(err, bound)
	if ctx.Err() == nil {
		k.config.Measured(pod.UID, used, err)
	}
}

// errPanicked is the error of a measurement that did not come to its end.
var errPanicked = errors.New("the measurement panicked")

// rest puts the next measurement off, and logs an error once.
func (k *Keeper) rest(pod Pod, t *turn, took time.Duration, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t.running = false
	// A tick may come a little early.
	t.next = time.Now().Add(min(max(interval, restFactor*took), longest) - interval/2)
	said := ""
	if err != nil {
		said = err.Error()
	}
	if said != "" && said != t.said {
		k.config.Logger.Error(err, "Failed to measure all that a pod uses of the disk; retrying", "namespace", pod.Namespace, "pod", pod.Name)
	}
	t.said = said
}

// deviceOf is the file system of a file.
func deviceOf(info fs.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Dev
	}
	return 0
}
