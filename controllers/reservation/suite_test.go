// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/fleet"
)

// api reaches a real API server; nil when its binaries are not there.
var (
	api    client.WithWatch
	apiCfg *rest.Config
	scheme = runtime.NewScheme()
)

// awhile is how long a test waits for what has to come.
const awhile = 20 * time.Second

func TestMain(m *testing.M) { os.Exit(runSuite(m)) }

func runSuite(m *testing.M) int {
	flag.Parse()
	dir := os.Getenv("KUBEBUILDER_ASSETS")
	if testing.Short() || dir == "" {
		return m.Run()
	}
	ctrl.SetLogger(logr.Discard())
	env := &envtest.Environment{BinaryAssetsDirectory: dir, CRDDirectoryPaths: []string{filepath.Join("..", "..", "config", "crd", "bases")}, ErrorIfCRDPathMissing: true}
	err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme))
	if err == nil {
		apiCfg, err = env.Start()
	}
	if err == nil {
		apiCfg.QPS, apiCfg.Burst = 500, 500
		api, err = client.NewWithWatch(apiCfg, client.Options{Scheme: scheme})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "start the API server:", err)
		return 1
	}
	defer func() {
		if err := env.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the API server:", err)
		}
	}()
	return m.Run()
}

// bench is a manager's reconciler in a namespace of its own, which holds all that it sees.
type bench struct {
	t         *testing.T
	namespace string
}

func newBench(t *testing.T, reserve bool) *bench {
	t.Helper()
	if api == nil {
		t.Skip("needs an API server: KUBEBUILDER_ASSETS is not set, or -short")
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-"}}
	if err := api.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, namespace: ns.Name}
	b.run(reserve)
	return b
}

// run runs the reconciler until the test ends.
func (b *bench) run(reserve bool) {
	b.t.Helper()
	mgr, err := ctrl.NewManager(apiCfg, ctrl.Options{
		Scheme: scheme, Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	shims := fleet.NewShims(b.namespace)
	index, nodes := fleet.NewIndex(fleet.NewLedger(shims), shims), fleet.NewNodes()
	var pods *Pods
	if reserve {
		if pods, err = NewPods(mgr, b.namespace); err != nil {
			b.t.Fatal(err)
		}
	}
	r := NewReconciler(mgr.GetClient(), index, nodes, pods, b.namespace)
	r.timing = timing{settle: 20 * time.Millisecond, spacing: 50 * time.Millisecond, patience: time.Second, refusal: time.Minute, reword: time.Minute}
	ctx, cancel := context.WithCancel(b.t.Context())
	if err := errors.Join(nodes.Watch(ctx, mgr.GetCache()), mgr.Add(index.Runnable(api)), r.SetUp(mgr, controller.Options{})); err != nil {
		b.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	b.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			b.t.Errorf("the manager: %v", err)
		}
	})
}

// node makes a Node that has so much CPU for Pods, and returns its name.
func (b *bench) node(name, cpu string) string {
	b.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: b.namespace + "-" + name}}
	if err := api.Create(b.t.Context(), node); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = api.Delete(context.Background(), node) })
	node.Status.Allocatable = requirements(cpu, "4Gi").Requests
	if err := api.Status().Update(b.t.Context(), node); err != nil {
		b.t.Fatal(err)
	}
	return node.Name
}

// pod makes the Pod that reserves on a node, as a kubelet admits it.
func (b *bench) pod(node string, change func(*corev1.Pod)) *corev1.Pod {
	b.t.Helper()
	pod := reservingPod(node)
	pod.Namespace, pod.Name, pod.GenerateName = b.namespace, "", "reserved-"
	change(pod)
	if err := api.Create(b.t.Context(), pod); err != nil {
		b.t.Fatal(err)
	}
	b.answer(pod, "", "1m", "8Mi")
	return pod
}

// answer has the kubelet say what it grants of what is asked, for a reason where that is not all.
func (b *bench) answer(pod *corev1.Pod, reason, cpu, memory string) {
	b.t.Helper()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := api.Get(b.t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		granted := requirements(cpu, memory)
		pod.Status.Phase, pod.Status.ObservedGeneration, pod.Status.Conditions = corev1.PodRunning, pod.Generation, nil
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: Container, Image: "i", ImageID: "i", Ready: true, Resources: &granted,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
		}}
		if reason != "" {
			pod.Status.Conditions = []corev1.PodCondition{{
				Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: reason, Message: "Node didn't have enough resource", ObservedGeneration: pod.Generation,
			}}
		}
		return api.Status().Update(b.t.Context(), pod)
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

// asks waits until a Pod requests so much.
func (b *bench) asks(pod *corev1.Pod, cpu, memory string) {
	b.t.Helper()
	want := fleet.AmountIn(requirements(cpu, memory).Requests)
	b.until("the Pod requests "+cpu+" and "+memory, func(ctx context.Context) (bool, error) {
		err := api.Get(ctx, client.ObjectKeyFromObject(pod), pod)
		return err == nil && fleet.AmountIn(pod.Spec.Containers[0].Resources.Requests) == want, err
	}, func() any { return pod.Spec.Containers[0].Resources })
}

// workload makes a NodeWorkload of two containers that request so much in all.
func (b *bench) workload(node, name, cpu, memory string) *v1alpha1.NodeWorkload {
	b.t.Helper()
	nw := &v1alpha1.NodeWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name}}
	nw.Spec.NodeName = node
	nw.Spec.Template.Spec.Containers = []corev1.Container{
		{Name: "a", Image: "i", Resources: requirements(cpu, memory)}, {Name: "b", Image: "i"},
	}
	if err := api.Create(b.t.Context(), nw); err != nil {
		b.t.Fatal(err)
	}
	return nw
}

// says waits until the condition of a NodeWorkload says so; "" waits until there is none.
func (b *bench) says(nw *v1alpha1.NodeWorkload, want string) {
	b.t.Helper()
	b.until(nw.Name+" says "+want, func(ctx context.Context) (bool, error) {
		err := api.Get(ctx, client.ObjectKeyFromObject(nw), nw)
		c := meta.FindStatusCondition(nw.Status.Conditions, v1alpha1.ConditionReserved)
		return err == nil && (c == nil && want == "" || c != nil && string(c.Status)+" "+c.Reason == want), err
	}, func() any { return nw.Status.Conditions })
}

func (b *bench) until(what string, done wait.ConditionWithContextFunc, last func() any) {
	b.t.Helper()
	if err := wait.PollUntilContextTimeout(b.t.Context(), 20*time.Millisecond, awhile, true, done); err != nil {
		b.t.Fatalf("until %s: %v; last seen: %+v", what, err, last())
	}
}
