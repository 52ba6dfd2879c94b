// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	typedauthenticationv1 "k8s.io/client-go/kubernetes/typed/authentication/v1"
	typedauthorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/managedworkload/managedworkload/api/kubeconfig"
	"github.com/managedworkload/managedworkload/api/metricsauth"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/admission"
	"github.com/managedworkload/managedworkload/controllers/fair"
	"github.com/managedworkload/managedworkload/controllers/fleet"
	"github.com/managedworkload/managedworkload/controllers/killrequest"
	"github.com/managedworkload/managedworkload/controllers/mirror"
	"github.com/managedworkload/managedworkload/controllers/objects"
	"github.com/managedworkload/managedworkload/controllers/reservation"
	"github.com/managedworkload/managedworkload/controllers/subresources"
	"github.com/managedworkload/managedworkload/controllers/webhook"
	"github.com/managedworkload/managedworkload/controllers/workload"
	"github.com/managedworkload/managedworkload/controllers/writes"
	"github.com/managedworkload/managedworkload/internal/informers"
)

const (
	component        = writes.FieldManager
	leaderElectionID = "managedworkload-manager"
	// releaseAfter is how long a Node may be gone until its NodeWorkloads are
	// given up (podgc's quarantine).
	releaseAfter = 40 * time.Second
	// killsInterval is how often recentKills are written at most.
	killsInterval = 10 * time.Second
	// cacheSyncTimeout is how long the first look at everything may take.
	cacheSyncTimeout = 10 * time.Minute
)

// timing are the times that tests shorten.
type timing struct {
	releaseAfter  time.Duration
	killsInterval time.Duration
}

// Run runs the manager until ctx is done.
func Run(ctx context.Context, o Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	cfg, err := kubeconfig.Load(o.Kubeconfig)
	if err != nil {
		return err
	}
	cfg.QPS, cfg.Burst, cfg.UserAgent = o.Load.QPS, o.Load.Burst, component
	ctrl.SetLogger(logr.FromContextOrDiscard(ctx))
	recorder, stop, err := newRecorder(ctx, cfg)
	if err != nil {
		return err
	}
	defer stop()
	mgr, err := newManager(ctx, cfg, o, recorder)
	if err != nil {
		return err
	}
	if err := setUp(ctx, mgr, o, recorder, timing{releaseAfter: releaseAfter, killsInterval: killsInterval}); err != nil {
		return err
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("run the manager: %w", err)
	}
	return nil
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("build the scheme: %w", err)
	}
	return scheme, nil
}

// newManager makes a manager whose cache holds only what is read. The events are those of its Lease.
func newManager(ctx context.Context, cfg *rest.Config, o Options, events record.EventRecorder) (manager.Manager, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	var lease resourcelock.Interface
	if o.LeaderElect {
		if lease, err = newLease(cfg, o.Namespace, events); err != nil {
			return nil, err
		}
	}
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme:                              scheme,
		Logger:                              logr.FromContextOrDiscard(ctx),
		Metrics:                             metricsauth.Options(o.MetricsBindAddress),
		HealthProbeBindAddress:              o.HealthProbeBindAddress,
		LeaderElection:                      o.LeaderElect,
		LeaderElectionID:                    leaderElectionID, // the name in the metric leader_election_master_status
		LeaderElectionResourceLockInterface: lease,
		RenewDeadline:                       new(renewDeadline),
		LeaderElectionReleaseOnCancel:       true,
		// A process may run the manager more than once, as tests do.
		Controller: config.Controller{SkipNameValidation: new(true)},
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			NewInformer:      informers.New,
			ByObject: map[client.Object]cache.ByObject{
				&corev1.Node{}:          {Transform: stripNode},
				&v1alpha1.KillRequest{}: {Transform: stripKillRequest},
				&corev1.Namespace{}:     {Transform: stripNamespace},
				&coordinationv1.Lease{}: {Transform: stripLease, Namespaces: map[string]cache.Config{o.Namespace: {}}},
			},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("make the manager: %w", err)
	}
	synced := func(req *http.Request) error {
		ctx, cancel := context.WithTimeout(req.Context(), time.Second)
		defer cancel()
		if !mgr.GetCache().WaitForCacheSync(ctx) {
			return errors.New("the caches are not filled yet")
		}
		return nil
	}
	if err := errors.Join(mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("caches", synced)); err != nil {
		return nil, fmt.Errorf("add health checks: %w", err)
	}
	return mgr, nil
}

// stripNode keeps of a Node what placement reads, and what it has for Pods.
func stripNode(o any) (any, error) {
	if node, ok := o.(*corev1.Node); ok {
		node.ManagedFields = nil
		node.Annotations = nil
		all := node.Status.Allocatable
		node.Status = corev1.NodeStatus{}
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if amount, ok := all[name]; ok {
				if node.Status.Allocatable == nil {
					node.Status.Allocatable = corev1.ResourceList{}
				}
				node.Status.Allocatable[name] = amount
			}
		}
	}
	return o, nil
}

// stripKillRequest leaves out what nothing here reads and may be large.
func stripKillRequest(o any) (any, error) {
	if kr, ok := o.(*v1alpha1.KillRequest); ok {
		kr.ManagedFields, kr.Annotations, kr.Labels, kr.Finalizers, kr.OwnerReferences = nil, nil, nil, nil, nil
	}
	return o, nil
}

// stripLease keeps of a Lease what its shim is judged by, and with managedFields its clock.
func stripLease(o any) (any, error) {
	if lease, ok := o.(*coordinationv1.Lease); ok {
		lease.OwnerReferences = nil
	}
	return o, nil
}

// stripNamespace keeps of a Namespace what admission goes by.
func stripNamespace(o any) (any, error) {
	if ns, ok := o.(*corev1.Namespace); ok {
		ns.ManagedFields, ns.Annotations = nil, nil
	}
	return o, nil
}

// eventBounds are those of one object, for each reason: kills that one node claims cost no other word
// about a ManagedWorkload.
func eventBounds() record.CorrelatorOptions {
	return record.CorrelatorOptions{
		BurstSize: 100, QPS: 1. / 60, MaxEvents: 50,
		SpamKeyFunc: func(e *corev1.Event) string {
			of := &e.InvolvedObject
			return strings.Join([]string{of.APIVersion, of.Kind, of.Namespace, of.Name, string(of.UID), e.Reason}, "/")
		},
	}
}

// newRecorder makes a recorder that keeps the words of each event: those of one
// reason differ, as kills do. stop ends its goroutines.
func newRecorder(ctx context.Context, cfg *rest.Config) (recorder record.EventRecorder, stop func(), err error) {
	api, err := typedcorev1.NewForConfig(cfg)
	if err != nil {
		return nil, nil, fmt.Errorf("make a client for events: %w", err)
	}
	scheme, err := newScheme()
	if err != nil {
		return nil, nil, err
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx), record.WithCorrelatorOptions(eventBounds()))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: api.Events("")})
	return broadcaster.NewRecorder(scheme, corev1.EventSource{Component: component}), broadcaster.Shutdown, nil
}

// setUp adds all reconcilers with their watches to mgr.
func setUp(ctx context.Context, mgr manager.Manager, o Options, recorder record.EventRecorder, t timing) error {
	known := newFleet(o.Namespace)
	feed, err := watchFleet(ctx, mgr, known)
	if err != nil {
		return err
	}
	hub, err := newHub(mgr, known)
	if err != nil {
		return err
	}
	if o.Subresources.Enabled() {
		known.Objects = hub
	}
	// What other field managers change is distinguished from what the manager writes.
	c := client.WithFieldOwner(guarded{mgr.GetClient()}, component)
	judging := admission.Options{IgnoreQuotas: o.IgnoreResourceQuotas, NoTokens: !o.Subresources.Enabled(), Tokens: hub}
	judge := admission.NewJudge(c, judging)
	asking, err := newWebhookClient(mgr)
	if err != nil {
		return err
	}
	workloads := workload.NewReconciler(c, mgr.GetAPIReader(), recorder, known, judge, t.killsInterval)
	nodeWorkloads := fleet.NewReconciler(c, mgr.GetAPIReader(), known.Shares, recorder, known.Shims, t.releaseAfter)
	requests := killrequest.NewReconciler(c, mgr.GetAPIReader(), recorder, killrequest.Fleet{Shares: known.Shares, Nodes: known.Nodes, Shims: known.Shims})
	reservations, err := newReservations(mgr, c, known, o)
	if err != nil {
		return err
	}
	keepContact := manager.RunnableFunc(func(ctx context.Context) error {
		known.Shims.KeepContact(ctx, mgr.GetAPIReader())
		return nil
	})
	filled := func(*http.Request) error {
		if !known.Shares.Synced() {
			return errors.New("the NodeWorkloads are not known yet")
		}
		return nil
	}
	return errors.Join(
		mgr.AddReadyzCheck("nodeworkloads", filled),
		workloads.SetUp(ctx, mgr, controllerOptions(o)),
		nodeWorkloads.SetUp(mgr, controllerOptions(o)),
		requests.SetUp(mgr, controllerOptions(o)),
		reservations.SetUp(mgr, controllerOptions(o)),
		mirror.NewReconciler(c, mgr.GetAPIReader(), recorder, known.Shares).SetUp(mgr, controllerOptions(o)),
		mgr.Add(feed),
		mgr.Add(keepContact),
		mgr.Add(hub),
		webhook.SetUp(ctx, mgr, o.Webhook, o.Namespace, admission.NewJudge(asking, judging)),
		subresources.SetUp(ctx, mgr, o.Subresources, o.Namespace, subresources.Sources{Nodes: known.Nodes, Objects: hub, References: hub, TokenRights: hub, Workloads: known.Shares}),
	)
}

// newWebhookClient makes the client with which the webhook asks: who applies many templates does not keep the
// reconcilers' requests waiting. It reads through the manager's cache.
func newWebhookClient(mgr manager.Manager) (client.Client, error) {
	cfg := rest.CopyConfig(mgr.GetConfig())
	cfg.RateLimiter = nil
	c, err := client.New(cfg, client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), Cache: &client.CacheOptions{Reader: mgr.GetCache()}})
	if err != nil {
		return nil, fmt.Errorf("make a client for the webhook: %w", err)
	}
	return client.WithFieldOwner(guarded{c}, component), nil
}

func newReservations(mgr manager.Manager, c client.Client, known workload.Fleet, o Options) (*reservation.Reconciler, error) {
	var pods *reservation.Pods
	if o.Reserve {
		var err error
		if pods, err = reservation.NewPods(mgr, o.Namespace); err != nil {
			return nil, err
		}
	}
	return reservation.NewReconciler(c, known.Shares, known.Nodes, pods, o.Namespace), nil
}

func newFleet(namespace string) workload.Fleet {
	shims := fleet.NewShims(namespace)
	kills := fleet.NewLedger(shims)
	kills.Follow()
	return workload.Fleet{Shares: fleet.NewIndex(kills, shims), Nodes: fleet.NewNodes(), Shims: shims, Kills: kills}
}

// watchFleet lets the cache feed what is remembered of Nodes and shims, and returns what
// feeds the index of NodeWorkloads.
func watchFleet(ctx context.Context, mgr manager.Manager, known workload.Fleet) (manager.Runnable, error) {
	direct, err := client.NewWithWatch(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme(), HTTPClient: mgr.GetHTTPClient(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("make a client for NodeWorkloads: %w", err)
	}
	if err := errors.Join(known.Nodes.Watch(ctx, mgr.GetCache()), known.Shims.Watch(ctx, mgr.GetCache()), known.Shares.ReadRevisions(ctx, mgr.GetCache())); err != nil {
		return nil, err
	}
	return known.Shares.Runnable(direct), nil
}

// newHub makes the hub of what containers need, with a client of its own: its many watches do
// not keep the reconcilers' requests waiting, and what they carry is not encoded as JSON.
func newHub(mgr manager.Manager, known workload.Fleet) (*objects.Hub, error) {
	cfg := rest.CopyConfig(mgr.GetConfig())
	cfg.RateLimiter = nil
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	api, err := typedcorev1.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make a client for ConfigMaps and Secrets: %w", err)
	}
	self, err := typedauthenticationv1.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make a client for the manager's own name: %w", err)
	}
	access, err := typedauthorizationv1.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make a client for the manager's own rights: %w", err)
	}
	return objects.NewHub(api, self, access, known.Shares), nil
}

// controllerOptions are those of all controllers. Their queue is fair between namespaces. It knows
// no priorities: after a restart of the manager a change waits for the other objects of its
// namespace.
func controllerOptions(o Options) controller.Options {
	return controller.Options{
		NewQueue:                fair.NewQueue,
		MaxConcurrentReconciles: o.Load.ConcurrentReconciles,
		RecoverPanic:            new(true),
		CacheSyncTimeout:        cacheSyncTimeout,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](50*time.Millisecond, time.Minute),
	}
}
