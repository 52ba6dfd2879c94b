// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package localstack brings up what ManagedWorkload needs on one plain machine:
// etcd, kube-apiserver, a containerd of its own, the manager and the shim. All
// of it lives in one state folder and can be taken down without a trace, also
// by another process and after a crash.
//
// It needs root on Linux for the container runtime; etcd, kube-apiserver and
// the manager alone (WithoutRuntime) run as any user.
package localstack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Images that Start imports into containerd. All hold the test program alone;
// the second version differs in its environment (IMAGE_VERSION), the other two
// in the user they run as.
const (
	ImageV1        = "managedworkload.dev/testprogram:v1"
	ImageV2        = "managedworkload.dev/testprogram:v2"
	ImageNonRoot   = "managedworkload.dev/testprogram:nonroot"
	ImageNamedUser = "managedworkload.dev/testprogram:named-user"
	ImagePause     = "managedworkload.dev/pause:v1"
)

// SystemNamespace is where config/ puts the manager and the shim.
const SystemNamespace = "managedworkload-system"

// DefaultNodeName is the node's name unless Options say otherwise.
const DefaultNodeName = "localstack"

// HandlerUserNamespaces is the runtime handler of Options.UserNamespaces.
const HandlerUserNamespaces = "user-namespaces"

// Options say what Start brings up.
type Options struct {
	// StateDir is the folder that holds everything. It is created, and removed
	// when the stack is stopped; a folder that is not a stack's is refused.
	StateDir string
	// NodeName is the shim's node; empty means DefaultNodeName. Of several nodes each
	// has its number after it: localstack-1, localstack-2.
	NodeName string
	// Nodes is the number of nodes with a containerd and a shim each; 0 means one.
	Nodes int

	// WithoutControlPlane leaves out etcd and kube-apiserver, and with them the
	// manager and the shim.
	WithoutControlPlane bool
	// StaticDir has the shim run by itself, from the files of this folder: it leaves out all
	// that WithoutControlPlane does but the shim.
	StaticDir string
	// WithoutRuntime leaves out containerd, and with it the shim.
	WithoutRuntime bool
	// WithoutConfig applies no configuration: no CRDs, no RBAC. It leaves out
	// the manager and the shim as well.
	WithoutConfig bool
	// WithoutManager leaves out the manager.
	WithoutManager bool
	// WithoutShim leaves out the shim.
	WithoutShim bool

	// WithWebhook lets kube-apiserver ask the manager about ManagedWorkloads when they are
	// applied. Without it they are judged after they are stored.
	WithWebhook bool

	// WithObjects applies the component by which containers get ConfigMaps, Secrets and
	// tokens, has the manager serve its aggregated API, and starts kube-controller-manager,
	// which gives each namespace its default service account and kube-root-ca.crt. With a
	// runtime it includes ForPods.
	WithObjects bool
	// WithControllerManager and WithScheduler start those of Kubernetes as well.
	WithControllerManager, WithScheduler bool
	// Controllers are those that kube-controller-manager runs, by comma; empty means all.
	Controllers string
	// WithKubelet starts a kubelet with a containerd of its own as another node.
	WithKubelet bool
	// KubeletNodeName is the kubelet's node; empty means DefaultKubeletNodeName.
	KubeletNodeName string
	// WithRegistry starts a registry in which the nodes look for the images of
	// managedworkload.dev that they lack; it has those that Push gives it.
	WithRegistry bool
	// UserNamespaces gives the nodes HandlerUserNamespaces, a runtime handler with the pinned
	// runc: distributions have one that is too old for hostUsers: false.
	UserNamespaces bool
	// ForPods has kube-apiserver at the address of its Service, where pods look for
	// it, lets it reach the kubelet, and has it ask for service accounts, which
	// kube-controller-manager makes. Shims give their containers that address.
	ForPods bool
	// AdmissionPlugins are those of kube-apiserver beside the default ones. Without any,
	// and without ForPods and WithObjects, that for service accounts is off.
	AdmissionPlugins []string
	// HostRuntime is the text of a /etc/managedworkload/containerd.toml. With it,
	// the shim's containerd lies where docs/operations.md has it and not in the
	// state folder; a machine that has something there is refused. HostNetwork is
	// the CNI configuration for it; bridge and subnet are replaced by free ones.
	HostRuntime, HostNetwork string
	// ProductImages are names under which the kubelet's containerd gets the image
	// that the Dockerfile describes.
	ProductImages []string

	// Config is the kustomize folder to apply; empty means config/default.
	Config string
	// Binary is the managedworkload program; empty builds it from this tree.
	Binary string
	// TestProgram is the static program of the images; empty builds it.
	TestProgram string
	// Containerd is another containerd than the pinned one, such as Debian's;
	// empty means MW_CONTAINERD of the environment, if set.
	Containerd string
	// PodLogDir holds the logs of the first node's containers. Default: in the stack's folder.
	PodLogDir string
	// ManagerArgs and ShimArgs come after the flags that Start gives itself.
	ManagerArgs, ShimArgs []string

	// Detach lets the processes outlive this one. Otherwise they die with it.
	Detach bool
	// Progress, when set, gets what happens, a line each.
	Progress io.Writer
}

func (o *Options) setDefaults() {
	if o.NodeName == "" {
		o.NodeName = DefaultNodeName
	}
	o.Nodes = max(o.Nodes, 1)
	if o.KubeletNodeName == "" {
		o.KubeletNodeName = DefaultKubeletNodeName
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	if o.WithObjects {
		o.WithControllerManager, o.ForPods = true, o.ForPods || !o.WithoutRuntime
	}
	if o.StaticDir != "" {
		o.WithoutControlPlane = true
	}
	if o.WithoutControlPlane {
		o.WithoutConfig, o.WithObjects = true, false
		o.WithControllerManager, o.WithScheduler, o.WithKubelet, o.ForPods = false, false, false, false
	}
	if o.WithoutConfig {
		o.WithoutManager, o.WithoutShim = true, o.StaticDir == ""
	}
	if o.WithoutRuntime {
		o.WithoutShim = true
	}
}

// Stack is a running stack. Its components can be stopped, killed and started
// one by one; those that were left out are nil.
type Stack struct {
	// Node is the first of Nodes, and the only one unless Options say otherwise.
	*Node
	// Nodes are those for shims.
	Nodes []*Node

	Etcd, APIServer, Manager *Component

	// Those that Options ask for.
	ControllerManager, Scheduler, Kubelet, KubeletContainerd, Registry *Component

	// ManagerMetrics and ManagerHealth are the addresses (host:port) of the manager's
	// metrics and health checks.
	ManagerMetrics, ManagerHealth string

	// webhookPort is where kube-apiserver looks for the manager's webhook; 0 if what was
	// applied has none.
	webhookPort int
	// objectsPort is where it looks for the manager's aggregated API; 0 without one.
	objectsPort int
	// serviceAddress is that of kube-apiserver's Service, if it is served there.
	serviceAddress string
	registryURL    string

	opts     Options
	layout   layout
	state    *state
	tools    tools
	launcher *launcher
	lock     *os.File
	stopped  bool

	mu      sync.Mutex
	subnets []netip.Prefix // of pod networks and Services

	api *rest.Config
}

// Start brings the stack up and returns once everything in it is ready. What an
// earlier stack left in the same state folder is taken down first, and so are
// the stacks of processes that died; a folder whose stack is in use by a living
// process is refused. On failure nothing is
// left running, and the error ends with the log of what failed.
func Start(ctx context.Context, opts Options) (*Stack, error) {
	opts.setDefaults()
	layout, err := newLayout(opts.StateDir)
	if err != nil {
		return nil, err
	}
	lock, err := acquire(ctx, layout)
	if err != nil {
		return nil, err
	}
	s := &Stack{opts: opts, layout: layout, lock: lock}
	s.makeNodes()
	if err := s.up(ctx); err != nil {
		// The context may be what ended the start; cleaning up must continue.
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute)
		defer cancel()
		return nil, errors.Join(err, s.Stop(cleanup))
	}
	if opts.Detach {
		s.lock = nil
		return s, lock.Close()
	}
	return s, nil
}

func (s *Stack) up(ctx context.Context) error {
	if err := takeDown(ctx, s.layout, nil); err != nil {
		return fmt.Errorf("take down the stack that was there: %w", err)
	}
	if err := s.sweep(ctx); err != nil {
		return err
	}
	var err error
	if s.tools, err = findTools(s.opts); err != nil {
		return err
	}
	if s.state, err = newState(s.layout, s.opts); err != nil {
		return err
	}
	s.launcher = newLauncher(!s.opts.Detach)
	for _, step := range []struct {
		skip  bool
		start func(context.Context) error
	}{
		{s.opts.WithoutControlPlane, s.startControlPlane},
		{!s.opts.WithRegistry, s.startRegistry},
		{s.opts.WithoutRuntime, s.startRuntime},
		{!s.opts.WithControllerManager, s.startControllerManager},
		{!s.opts.WithScheduler, s.startScheduler},
		{!s.opts.WithKubelet, s.startKubelet},
		{len(s.opts.ProductImages) == 0, s.importProduct},
		{s.opts.WithoutConfig, s.applyConfig},
		{s.opts.WithoutManager && s.opts.WithoutShim, s.prepareOurs},
		{s.opts.WithoutManager, s.startManager},
		{s.opts.WithoutShim, s.startShims},
	} {
		if step.skip {
			continue
		}
		if err := step.start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Stop ends everything the stack started, containers included, and removes the
// state folder. A stack that was stopped, or taken down by others, is stopped.
func (s *Stack) Stop(ctx context.Context) error {
	if s.stopped {
		return nil
	}
	s.stopped = true
	var errs []error
	if s.lock == nil {
		lock, err := acquire(ctx, s.layout)
		if err != nil {
			return err
		}
		s.lock = lock
	}
	errs = append(errs, s.onNodes(func(n *Node) error { return n.stopShim(ctx) }))
	for _, c := range []*Component{s.Manager, s.Kubelet, s.Scheduler, s.ControllerManager} {
		if c != nil {
			errs = append(errs, c.Stop(ctx))
		}
	}
	errs = append(errs, takeDown(ctx, s.layout, s))
	if s.launcher != nil {
		s.launcher.close()
	}
	errs = append(errs, release(s.layout, s.lock))
	s.lock = nil
	return errors.Join(errs...)
}

// Down takes down the stack of a state folder, whoever started it. A folder
// that does not exist is down already.
func Down(ctx context.Context, stateDir string) error {
	layout, err := newLayout(stateDir)
	if err != nil {
		return err
	}
	if _, err := os.Stat(layout.dir); os.IsNotExist(err) {
		return nil
	}
	lock, err := acquire(ctx, layout)
	if err != nil {
		return err
	}
	return errors.Join(takeDown(ctx, layout, nil), release(layout, lock))
}

// RESTConfig is an administrator's, without client-side throttling.
func (s *Stack) RESTConfig() *rest.Config {
	return rest.CopyConfig(s.api)
}

func (s *Stack) loadRESTConfig() (err error) {
	s.api, err = clientcmd.BuildConfigFromFlags("", s.layout.kubeconfig(admin))
	if err != nil {
		return err
	}
	s.api.QPS = -1
	return nil
}

// Kubeconfig is the path of an administrator's kubeconfig.
func (s *Stack) Kubeconfig() string { return s.layout.kubeconfig(admin) }

// ManagerKubeconfig is the path of the manager's kubeconfig.
func (s *Stack) ManagerKubeconfig() string { return s.layout.kubeconfig(manager) }

// StateDir is the stack's folder.
func (s *Stack) StateDir() string { return s.layout.dir }

// Scratch is a folder inside the state folder for a test's own files, such as
// those of a hostPath volume.
func (s *Stack) Scratch() string { return s.layout.scratch() }

func (s *Stack) progress(format string, args ...any) {
	_, _ = fmt.Fprintf(s.opts.Progress, format+"\n", args...) // nothing depends on it
}
