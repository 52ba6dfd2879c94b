// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fakecri is a container runtime in memory that answers CRI v1, behaves
// as a scenario says and records every call that changes something, with its
// time. Both agents of a comparison get an instance of it.
package fakecri

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/hack/scenario"
)

// Name is the runtime's name.
const Name = "fakeRuntime"

const killedExitCode = 137

// The addresses of the pod's sandboxes, and of one that appears beside another.
const (
	PodIP    = "10.0.0.7"
	SecondIP = "10.0.0.8"
)

// Runtime is the container runtime.
type Runtime struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	runtimeapi.UnimplementedImageServiceServer

	// root is the folder of the agent's files, and logs that of the pods' logs.
	root, logs string

	mu         sync.Mutex
	begun      time.Time
	trace      []Entry
	scripts    map[string]*scenario.Script
	images     map[string]bool
	pull       time.Duration
	sandboxes  []*runtimeapi.PodSandboxStatus // oldest first
	containers []*container                   // oldest first
	// failures are the kinds of errors by method and container.
	failures map[string]string
	noIP     bool
	// mode is whether the next sandbox comes up in the other network, and noNetwork
	// whether it has no network status at all.
	mode, noNetwork bool
	additional      []*runtimeapi.PodIP
	// fresh are the sandboxes that were made in this step.
	fresh map[string]bool
	// created is the last creation time given out: no two are alike.
	created   int64
	instances map[string]int
	// resultOf holds what the probes say, by container ID.
	probes map[string]*Verdicts
}

// Verdicts are those of an instance's probes; empty means none.
type Verdicts struct {
	Liveness, Startup string
}

type container struct {
	*runtimeapi.ContainerStatus
	sandbox string
	// exits is when it exits by itself; zero for never.
	exits time.Time
	run   scenario.Run
	// stopped is closed when it has left.
	stopped chan struct{}
}

// New returns a runtime at the beginning of a scenario, for an agent that keeps its
// files below root and the pods' logs in the folder logs there.
func New(s *scenario.Scenario, root string) *Runtime {
	r := &Runtime{
		root: root, logs: filepath.Join(root, "logs"),
		begun: time.Now(), scripts: s.Scripts, images: map[string]bool{},
		pull: seconds(s.PullSeconds), failures: map[string]string{}, fresh: map[string]bool{},
		instances: map[string]int{}, probes: map[string]*Verdicts{},
	}
	for _, image := range s.Images {
		r.images[image] = true
	}
	for _, ip := range s.AdditionalIPs {
		r.additional = append(r.additional, &runtimeapi.PodIP{Ip: ip})
	}
	return r
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

func (r *Runtime) script(name string) *scenario.Script {
	if s := r.scripts[name]; s != nil {
		return s
	}
	return &scenario.Script{}
}

// settle lets the containers exit whose time has come.
func (r *Runtime) settle() {
	now := time.Now()
	for _, c := range r.containers {
		if c.State == runtimeapi.ContainerState_CONTAINER_RUNNING && !c.exits.IsZero() && !c.exits.After(now) {
			c.exit(c.exits, c.run.ExitCode, c.run.OOM)
		}
	}
}

func (c *container) exit(at time.Time, code int32, oom bool) {
	if c.State == runtimeapi.ContainerState_CONTAINER_EXITED {
		return
	}
	if c.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
		c.leaveMessage()
	}
	c.State, c.FinishedAt, c.ExitCode, c.Reason = runtimeapi.ContainerState_CONTAINER_EXITED, at.UnixNano(), code, "Error"
	switch {
	case oom:
		c.Reason = "OOMKilled" // whatever its exit code
	case code == 0:
		c.Reason = "Completed"
	}
	select {
	case <-c.stopped: // it had left before the runtime lost track of it
	default:
		close(c.stopped)
	}
}

// fail returns the error that a method is to fail with, nil if it is not.
func (r *Runtime) fail(method, name string) (string, error) {
	kind := r.failures[method+"/"+name]
	if kind == "" {
		kind = r.failures[method+"/"]
	}
	return kind, errorOf(kind)
}

// ErrorKinds are the errors that calls can fail with.
var ErrorKinds = []string{"Unknown", "Unavailable", "DeadlineExceeded", "NotFound"}

func errorOf(kind string) error {
	switch kind {
	case "":
		return nil
	case "NotFound":
		return status.Error(codes.NotFound, "no such thing")
	case "Unavailable":
		return status.Error(codes.Unavailable, "connection refused")
	case "DeadlineExceeded":
		return status.Error(codes.DeadlineExceeded, "context deadline exceeded")
	case "RegistryUnavailable", "SignatureValidationFailed":
		return status.Error(codes.Unknown, kind+": said the registry") // the words of cri-api/pkg/errors
	default:
		return status.Error(codes.Unknown, "runtime exploded: not found")
	}
}

func (r *Runtime) find(id string) (*container, error) {
	r.settle()
	for _, c := range r.containers {
		if c.Id == id {
			return c, nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "container %q is not there", id)
}

// newest returns the newest instance of a name, nil if there is none.
func (r *Runtime) newest(name string) *container {
	for _, c := range slices.Backward(r.containers) {
		if c.Metadata.GetName() == name {
			return c
		}
	}
	return nil
}

// now is the time in nanoseconds, later than any that was given out before.
func (r *Runtime) now() int64 {
	r.created = max(r.created+1, time.Now().UnixNano())
	return r.created
}

func (r *Runtime) newID(kind string) string {
	n := r.instances[kind]
	r.instances[kind]++
	return fmt.Sprintf("%s-%d", kind, n)
}

func (r *Runtime) dropSandbox(id string) {
	r.sandboxes = slices.DeleteFunc(r.sandboxes, func(s *runtimeapi.PodSandboxStatus) bool { return s.Id == id })
}

// Happen applies an event to the runtime. Those that are not about the runtime
// are left alone.
func (r *Runtime) Happen(e *scenario.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settle()
	switch e.Kind {
	case scenario.Fail:
		r.failures[e.Method+"/"+e.Container] = e.Error
	case scenario.ImageGone:
		delete(r.images, e.Image)
	case scenario.SandboxNoIP:
		r.noIP = true
	case scenario.SandboxNoStatus:
		r.noNetwork = true
	case scenario.SandboxMode:
		r.mode = true
	case scenario.SandboxDied, scenario.SandboxNotReady, scenario.SandboxLost, scenario.SandboxOnlyLost, scenario.SandboxSecond:
		r.happenToSandbox(e)
	default:
		r.happenToContainer(e)
	}
}

func (r *Runtime) happenToSandbox(e *scenario.Event) {
	if len(r.sandboxes) == 0 {
		return
	}
	s := r.sandboxes[len(r.sandboxes)-1]
	switch e.Kind {
	case scenario.SandboxDied:
		r.killRest(s.Id)
		s.State, s.Network = runtimeapi.PodSandboxState_SANDBOX_NOTREADY, nil
	case scenario.SandboxNotReady:
		s.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
	case scenario.SandboxLost:
		r.killRest(s.Id)
		r.containers = slices.DeleteFunc(r.containers, func(c *container) bool { return c.sandbox == s.Id })
		r.dropSandbox(s.Id)
	case scenario.SandboxOnlyLost:
		r.dropSandbox(s.Id)
	case scenario.SandboxSecond:
		second := proto.CloneOf(s)
		second.Id, second.State, second.CreatedAt = r.newID("sandbox"), runtimeapi.PodSandboxState_SANDBOX_READY, r.now()
		second.Metadata.Attempt++
		if s.Network.GetIp() != "" {
			second.Network = &runtimeapi.PodSandboxNetworkStatus{Ip: SecondIP, AdditionalIps: r.additional}
		}
		r.sandboxes = append(r.sandboxes, second)
	}
}

var otherMode = map[runtimeapi.NamespaceMode]runtimeapi.NamespaceMode{
	runtimeapi.NamespaceMode_POD: runtimeapi.NamespaceMode_NODE, runtimeapi.NamespaceMode_NODE: runtimeapi.NamespaceMode_POD,
}

func (r *Runtime) happenToContainer(e *scenario.Event) {
	c := r.newest(e.Container)
	if c == nil {
		return
	}
	running := c.State == runtimeapi.ContainerState_CONTAINER_RUNNING
	switch e.Kind {
	case scenario.Exit:
		if running {
			at := time.Now().Add(-seconds(e.Ago))
			if started := time.Unix(0, c.StartedAt); at.Before(started) {
				at = started
			}
			c.exit(at, e.ExitCode, e.OOM)
		}
	case scenario.Unknown:
		if running {
			c.State = runtimeapi.ContainerState_CONTAINER_UNKNOWN
		}
	case scenario.UnknownDead:
		if c.State == runtimeapi.ContainerState_CONTAINER_EXITED {
			c.State = runtimeapi.ContainerState_CONTAINER_UNKNOWN
		}
	case scenario.Removed:
		r.forget(c)
	case scenario.Liveness:
		if running {
			r.verdicts(c.Id).Liveness = e.Verdict
		}
	case scenario.Startup:
		if running {
			r.verdicts(c.Id).Startup = e.Verdict
		}
	}
}

// Calm ends the failures of a step.
func (r *Runtime) Calm() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.failures)
	clear(r.fresh)
}

func (r *Runtime) verdicts(id string) *Verdicts {
	if r.probes[id] == nil {
		r.probes[id] = &Verdicts{}
	}
	return r.probes[id]
}

// Probes returns what the probes say of the running containers, by ID. An
// instance that runs is alive until an event says otherwise, and a startup probe
// knows nothing until then.
func (r *Runtime) Probes() map[string]Verdicts {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settle()
	out := map[string]Verdicts{}
	for _, c := range r.containers {
		if c.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
			continue
		}
		v := *r.verdicts(c.Id)
		if v.Liveness == "" {
			v.Liveness = "success"
		}
		if v.Startup == "" {
			v.Startup = "unknown"
		}
		out[c.Id] = v
	}
	return out
}

// Running names the containers that run.
func (r *Runtime) Running() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settle()
	names := map[string]bool{}
	for _, c := range r.containers {
		if c.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
			names[c.Metadata.GetName()] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}
