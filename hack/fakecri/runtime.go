// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fakecri is a container runtime in memory that answers CRI v1, behaves
// as a scenario says and records every call that changes something, with its
// time. Both agents of a comparison get an instance of it.
package fakecri

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/hack/scenario"
	"github.com/managedworkload/managedworkload/runtime/plan"
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

	mu      sync.Mutex
	begun   time.Time
	trace   []Entry
	scripts map[string]*scenario.Script
	// Images are present.
	Images map[string]bool
	pull   time.Duration
	// Sandboxes and Containers, newest first.
	Sandboxes  []*Sandbox
	Containers []*Container
	// CallSeconds is how long a call takes, by its method, unless it is cancelled.
	CallSeconds map[string]float64
	// failures are the kinds of errors by method and container.
	failures map[string]string
	noIP     bool
	// mode is whether the next sandbox comes up in the other network, and noNetwork
	// whether it has no network status at all.
	mode, noNetwork bool
	additional      []string
	// fresh are the sandboxes that were made in this step.
	fresh map[string]bool
	// created is the last creation time given out: no two are alike.
	created   int64
	instances map[string]int
	// SandboxKills: the end of a sandbox kills what is left in it, as with containerd.
	SandboxKills bool
	// Created sees every container that is created.
	Created func(*Container)
	// asRecorded makes it behave as the vectors' runtime.
	asRecorded bool
	// probes holds what the probes say, by container ID.
	probes map[string]*Verdicts
}

// Verdicts are those of an instance's probes; empty means none.
type Verdicts struct {
	Liveness, Startup string
}

// Sandbox is a sandbox as it is, and how it behaves.
type Sandbox struct {
	plan.SandboxStatus
	// StopError is the kind of error that it cannot be stopped with.
	StopError string

	Metadata            *runtimeapi.PodSandboxMetadata
	Labels, Annotations map[string]string

	options *runtimeapi.NamespaceOption
}

// Container is an instance as it is, and how it behaves.
type Container struct {
	plan.ContainerStatus
	scenario.Script
	// StopError and RemoveError are the kinds of errors that it cannot be stopped
	// or removed with.
	StopError, RemoveError string
	// IgnoresTerm makes it leave by force only, SameExitCode with the code of its
	// script also then, OOMKilled as one that the kernel killed.
	IgnoresTerm, SameExitCode, OOMKilled bool
	// RunsOn makes StopContainer succeed and change nothing.
	RunsOn bool

	Labels, Annotations map[string]string

	mounts []*runtimeapi.Mount
	// exits is when it exits by itself; zero for never.
	exits time.Time
	run   scenario.Run
	// stopped is closed when it has left.
	stopped chan struct{}
}

// left is closed when a container has left.
func (c *Container) left() chan struct{} {
	if c.stopped == nil {
		c.stopped = make(chan struct{})
	}
	return c.stopped
}

// lives: it runs, or may run.
func (c *Container) lives() bool {
	return c.State == plan.ContainerRunning || c.State == plan.ContainerUnknown
}

// New returns a runtime at the beginning of a scenario, for an agent that keeps its
// files below root and the pods' logs in the folder logs there.
func New(s *scenario.Scenario, root string) *Runtime {
	r := &Runtime{
		root: root, logs: filepath.Join(root, "logs"), SandboxKills: true,
		begun: time.Now(), scripts: s.Scripts, Images: map[string]bool{},
		pull: seconds(s.PullSeconds), failures: map[string]string{}, fresh: map[string]bool{},
		instances: map[string]int{}, probes: map[string]*Verdicts{}, additional: s.AdditionalIPs,
	}
	for _, image := range s.Images {
		r.Images[image] = true
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
	for _, c := range r.Containers {
		if c.State == plan.ContainerRunning && !c.exits.IsZero() && !c.exits.After(now) {
			c.exit(c.exits, c.run.ExitCode, c.run.OOM)
		}
	}
}

func (c *Container) exit(at time.Time, code int32, oom bool) {
	if c.State == plan.ContainerExited {
		return
	}
	select {
	case <-c.left():
		// It had left before the runtime lost track of it, and does so once.
		c.State = plan.ContainerExited
		return
	default:
		close(c.left())
	}
	if c.State == plan.ContainerRunning {
		c.leaveMessage()
	}
	c.State, c.FinishedAt, c.ExitCode, c.Reason = plan.ContainerExited, at, code, "Error"
	switch {
	case oom:
		c.Reason = "OOMKilled" // whatever its exit code
	case code == 0:
		c.Reason = "Completed"
	}
}

// fail returns the error that a method is to fail with, nil if it is not: for one
// of the names or IDs, or for all.
func (r *Runtime) fail(method string, of ...string) (string, error) {
	kind := ""
	for _, name := range append(of, "") {
		kind = cmp.Or(kind, r.failures[method+"/"+name])
	}
	if r.asRecorded {
		return kind, ErrorOf(kind)
	}
	return kind, errorOf(kind)
}

// failOf is fail for a container, which may have an error of its own.
func (r *Runtime) failOf(method string, c *Container, own string) (string, error) {
	if own != "" {
		return own, ErrorOf(own)
	}
	return r.fail(method, c.Name, c.ID)
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

func (r *Runtime) find(id string) (*Container, error) {
	r.settle()
	for _, c := range r.Containers {
		if c.ID == id {
			return c, nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "container %q is not there", id)
}

// newest returns the newest instance of a name, nil if there is none.
func (r *Runtime) newest(name string) *Container {
	for _, c := range r.Containers {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// now is the time, later than any that was given out before.
func (r *Runtime) now() time.Time {
	if r.asRecorded {
		return time.Now()
	}
	r.created = max(r.created+1, time.Now().UnixNano())
	return time.Unix(0, r.created)
}

func (r *Runtime) newID(kind string) string {
	n := r.instances[kind]
	r.instances[kind]++
	return fmt.Sprintf("%s-%d", kind, n)
}

func (r *Runtime) dropSandbox(id string) {
	r.Sandboxes = slices.DeleteFunc(r.Sandboxes, func(s *Sandbox) bool { return s.ID == id })
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
	for _, c := range r.Containers {
		if c.State != plan.ContainerRunning {
			continue
		}
		v := *r.verdicts(c.ID)
		if v.Liveness == "" {
			v.Liveness = "success"
		}
		if v.Startup == "" {
			v.Startup = "unknown"
		}
		out[c.ID] = v
	}
	return out
}

// Running names the containers that run.
func (r *Runtime) Running() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settle()
	names := map[string]bool{}
	for _, c := range r.Containers {
		if c.State == plan.ContainerRunning {
			names[c.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}
