// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/runtime/clock"
	"github.com/managedworkload/managedworkload/runtime/hostfs"
	"github.com/managedworkload/managedworkload/runtime/images"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// Runtime is what the executor needs of a container runtime. Errors keep their
// gRPC status; each call has a deadline of its own.
type Runtime interface {
	RunSandbox(ctx context.Context, pod *corev1.Pod, attempt uint32) (string, error)
	SandboxStatus(ctx context.Context, id string) (plan.SandboxStatus, error)
	StopSandbox(ctx context.Context, id string) error
	RemoveSandbox(ctx context.Context, id string) error

	CreateContainer(ctx context.Context, pod *corev1.Pod, c *corev1.Container, opts plan.CreateOptions) (string, error)
	StartContainer(ctx context.Context, id string) error
	StopContainer(ctx context.Context, id string, timeoutSeconds int64) error
	RemoveContainer(ctx context.Context, id string) error
	ContainerStatus(ctx context.Context, id string) (plan.ContainerStatus, error)
	PodStatus(ctx context.Context, uid types.UID) (*plan.PodStatus, error)
	ExecSync(ctx context.Context, id string, cmd []string, timeout time.Duration) (stdout, stderr []byte, exitCode int32, err error)

	// ImageRef is empty when the image is not present.
	ImageRef(ctx context.Context, image string) (string, error)
	// PullImage pulls with a login, or without any.
	PullImage(ctx context.Context, image string, pod *corev1.Pod, login *images.Login) (string, error)
}

// ImageSizer is implemented by a Runtime that knows how many bytes an image
// has; without it the Pulled event says 0 bytes.
type ImageSizer interface {
	ImageSize(ctx context.Context, ref string) (uint64, error)
}

// Events takes the events the kubelet would write about a Pod. fieldPath names
// the container, as "spec.containers{c}", or is empty.
type Events interface {
	Event(pod *corev1.Pod, fieldPath, eventtype, reason, message string)
}

// KillSink takes the records of kills: when one begins (before its first side
// effect), at each change of its phase, and when it has ended. It must not
// block for long.
type KillSink interface {
	Kill(podUID types.UID, kill plan.KillProgress)
}

// HTTPDoer sends the request of an httpGet hook.
type HTTPDoer interface {
	Do(req *http.Request) (*http.Response, error)
}

// Config is what an Executor works with.
type Config struct {
	Runtime Runtime
	Events  Events
	Kills   KillSink
	// Differences from the kubelet.
	Differences plan.Differences
	// Clock is the node's; nil counts from the process's start.
	Clock *clock.Clock
	// Prepare makes a pod's directories and volumes ready; nil means that there
	// is nothing to prepare.
	Prepare func(ctx context.Context, pod *corev1.Pod) error
	// PodCgroup changes the limits of pods that run; nil means that pods have no
	// cgroup of their own.
	PodCgroup PodCgroup
	// Freezer knows which containers are paused; nil means that this is not known.
	Freezer Freezer
	// LogDirectory is a pod's log directory on the node; nil means that restart
	// counts cannot be taken from log files.
	LogDirectory func(pod *corev1.Pod) string
	// Images knows who may use which image, and the credentials of pulls; nil means that
	// nothing is remembered of earlier processes and that there are no credentials.
	Images *images.Manager
	// HTTP sends httpGet hooks; nil means the default client.
	HTTP HTTPDoer
	// RuntimeName prefixes container IDs in messages, such as containerd.
	RuntimeName string
}

// Executor carries plans out. It is safe for use by many pod workers at once;
// the calls about one pod are to be made one after another, but for Shorten, NoteExits, and syncs of
// what plan.Actions.Apart has taken apart.
type Executor struct {
	runtime     Runtime
	events      Events
	kills       KillSink
	differences plan.Differences
	clock       *clock.Clock
	prepare     func(ctx context.Context, pod *corev1.Pod) error
	cgroup      PodCgroup
	freezer     Freezer
	logDir      func(pod *corev1.Pod) string
	disk        *hostfs.Patience // with the log directories
	runtimeName string
	hooks       hookRunner
	images      *imageManager

	// hooksRunning are preStop hooks that are not cancelled (Differences.CancelHooks).
	hooksRunning sync.WaitGroup

	mu       sync.Mutex
	inflight map[types.UID]map[*kill]struct{}
	// turns are those of kills under way, by pod.
	turns    map[types.UID]map[*turns]struct{}
	panicked map[string]int // by container ID
	// starting are the containers that have a postStart hook which has not ended, by pod and ID.
	starting map[types.UID]map[string]bool
	// places are those of the pods for which something was started or resized.
	places map[types.UID]*place
	// failed are the containers whose kills fail while their pod is killed, by pod and ID.
	failed      map[types.UID]map[string]*failedKills
	interrupted bool
}

// New returns an Executor.
func New(cfg Config) *Executor {
	e := &Executor{
		runtime:     cfg.Runtime,
		events:      cfg.Events,
		kills:       cfg.Kills,
		differences: cfg.Differences,
		clock:       cfg.Clock,
		prepare:     cfg.Prepare,
		cgroup:      cfg.PodCgroup,
		freezer:     cfg.Freezer,
		logDir:      cfg.LogDirectory,
		disk:        hostfs.NewPatience(hostfs.DefaultPatience),
		runtimeName: cfg.RuntimeName,
		images:      newImageManager(cfg.Runtime, cfg.Images, cfg.Events, cfg.Differences),
		inflight:    map[types.UID]map[*kill]struct{}{},
		starting:    map[types.UID]map[string]bool{},
		turns:       map[types.UID]map[*turns]struct{}{},
		failed:      map[types.UID]map[string]*failedKills{},
		panicked:    map[string]int{},
		places:      map[types.UID]*place{},
	}
	hooks := &handlers{runtime: cfg.Runtime, events: cfg.Events, http: cfg.HTTP, differences: cfg.Differences}
	if cfg.HTTP == nil {
		hooks.http = newHTTPClient()
	}
	e.hooks = hooks
	return e
}

// moment is the present by the node's two clocks.
func (e *Executor) moment() plan.Moment {
	return plan.Moment{Wall: e.clock.Now(), SinceBoot: e.clock.SinceBoot(), BootID: e.clock.BootID()}
}

// Forget drops what is remembered about a pod that is gone: its image pull
// back-off, what its place is for, and which kills have failed.
func (e *Executor) Forget(uid types.UID) {
	e.mu.Lock()
	delete(e.places, uid)
	delete(e.failed, uid)
	e.mu.Unlock()
	e.images.forget(uid)
}
