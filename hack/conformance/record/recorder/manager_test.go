// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build record

package recorder

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	cadvisorapi "github.com/google/cadvisor/info/v1"
	"go.opentelemetry.io/otel/trace/noop"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	containertest "k8s.io/kubernetes/pkg/kubelet/container/testing"
	"k8s.io/kubernetes/pkg/kubelet/kuberuntime"
	"k8s.io/kubernetes/pkg/kubelet/logs"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/hack/conformance/kubelet"
	"github.com/managedworkload/managedworkload/hack/conformance/record/cases"
	"github.com/managedworkload/managedworkload/hack/fakecri"
	"github.com/managedworkload/managedworkload/hack/recordings"
)

// manager is the kubelet's, over a fake runtime.
type manager struct {
	kuberuntime.RecordedManager
	f *fakecri.Recorded
	// hooks are those that run.
	hooks sync.WaitGroup
}

// newManager makes a manager whose time begins now.
func newManager(t *testing.T, f *fakecri.Recorded, pods podStates, probes recordings.Probes) *manager {
	m := &manager{f: f}
	runtimes, images := kubelet.NewServices(fakecri.Conn{Runtime: f})
	helper := &containertest.FakeRuntimeHelper{}
	made, _, err := kuberuntime.NewKubeGenericRuntimeManager(t.Context(), traceEvents{f: f},
		cases.Verdicts(probes.Liveness), cases.Verdicts{}, cases.Verdicts(probes.Startup),
		root, root+"/logs", &cadvisorapi.MachineInfo{MemoryCapacity: 8 << 30}, pods, 110, &containertest.FakeOS{}, helper, f,
		flowcontrol.NewBackOff(10*time.Second, 300*time.Second), false, ptr.To[int32](4), 0, 0,
		string(kubeletconfig.NeverVerifyPreloadedImages), nil, "", "",
		ptr.To(false), true, metav1.Duration{Duration: 100 * time.Millisecond}, services{runtimes, f}, imageServices{images, f},
		cm.NewFakeContainerManager(), logs.NewStubContainerLogManager(), nil, false, "",
		func() corev1.ResourceList { return nil }, 0.9, kubeletconfig.NoneMemoryReservationPolicy, noTimes{},
		noop.NewTracerProvider(), nil, nil, nil)
	must(t, err)
	m.RecordedManager = kuberuntime.RecordManager(made, func(r kubecontainer.HandlerRunner) kubecontainer.HandlerRunner {
		return &hookRunner{HandlerRunner: r, m: m}
	})
	return m
}

// settle waits for hooks that continue after the call, and for what follows from them.
func (m *manager) settle() {
	m.hooks.Wait()
	synctest.Wait()
}

// root is a folder for what the manager insists on writing.
var root string

// hookRunner keeps when hooks begin and end.
type hookRunner struct {
	kubecontainer.HandlerRunner
	m *manager
}

func (h *hookRunner) Run(ctx context.Context, id kubecontainer.ContainerID, pod *corev1.Pod, c *corev1.Container,
	hook *corev1.LifecycleHandler) (string, error) {
	h.m.hooks.Add(1)
	defer h.m.hooks.Done()
	which, kind := "postStart", "invalid"
	if c.Lifecycle != nil && hook == c.Lifecycle.PreStop {
		which = "preStop"
	}
	switch {
	case hook.Exec != nil:
		kind = "exec"
	case hook.HTTPGet != nil:
		kind = "httpGet"
	case hook.Sleep != nil:
		kind = "sleep"
	}
	h.m.f.Note("HookStart", entry{"container": c.Name, "id": id.ID, "hook": which, "kind": kind})
	message, err := h.HandlerRunner.Run(ctx, id, pod, c, hook)
	e := entry{"container": c.Name, "id": id.ID, "hook": which, "error": "", "message": message}
	if err != nil {
		e["error"] = err.Error()
	}
	h.m.f.Note("HookEnd", e)
	return message, err
}

// traceEvents puts events into the trace.
type traceEvents struct {
	record.EventRecorderLogger
	f *fakecri.Recorded
}

func (r traceEvents) WithLogger(klog.Logger) record.EventRecorderLogger { return r }

func (r traceEvents) Eventf(object runtime.Object, eventtype, reason, message string, args ...any) {
	r.Event(object, eventtype, reason, fmt.Sprintf(message, args...))
}

func (r traceEvents) AnnotatedEventf(object runtime.Object, _ map[string]string, eventtype, reason, message string, args ...any) {
	r.Eventf(object, eventtype, reason, message, args...)
}

func (r traceEvents) Event(object runtime.Object, eventtype, reason, message string) {
	e := entry{"type": eventtype, "reason": reason, "message": message, "fieldPath": ""}
	if ref, ok := object.(*corev1.ObjectReference); ok {
		e["object"], e["fieldPath"] = ref.Name, ref.FieldPath
		if _, name, ok := strings.Cut(ref.FieldPath, "{"); ok {
			e["container"] = strings.TrimSuffix(name, "}")
		} else if name, ok := strings.CutPrefix(ref.FieldPath, kubecontainer.ImplicitContainerPrefix); ok {
			e["container"] = name
		}
	} else if accessor, err := meta.Accessor(object); err == nil {
		e["object"] = accessor.GetName()
	}
	r.f.Note("Event", e)
}

// podStates are what the pod workers know.
type podStates struct {
	terminating bool
	pods        map[string]recordings.GCPod
}

func (p podStates) IsPodTerminationRequested(types.UID) bool { return p.terminating }
func (p podStates) ShouldPodContentBeRemoved(uid types.UID) bool {
	return p.pods[string(uid)].ContentRemoved
}
func (p podStates) ShouldPodRuntimeBeRemoved(uid types.UID) bool {
	return p.pods[string(uid)].RuntimeRemoved
}

type noTimes struct{}

func (noTimes) RecordImageStartedPulling(types.UID)  {}
func (noTimes) RecordImageFinishedPulling(types.UID) {}

// resultsOf writes results.
func resultsOf(results []*kubecontainer.SyncResult) []recordings.Result {
	out := []recordings.Result{}
	for _, r := range results {
		line := recordings.Result{Action: string(r.Action), Target: fmt.Sprint(r.Target), Message: r.Message}
		if r.Error != nil {
			line.Error = r.Error.Error()
			if b, ok := r.Error.(*kubecontainer.BackoffError); ok {
				line.BackoffUntil = b.BackoffTime().UTC().Format(time.RFC3339Nano)
			}
		}
		out = append(out, line)
	}
	return recordings.KillResults(out)
}
