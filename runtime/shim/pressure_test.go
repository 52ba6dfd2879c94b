// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/managedworkload/managedworkload/api/options"
	"github.com/managedworkload/managedworkload/runtime/diskusage"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// The Node of a shim has the kubelet's conditions, at the next look after they change.
func TestNodePressureConditions(t *testing.T) {
	api := newFakeAPI(t, interceptor.Funcs{})
	var short []corev1.NodeConditionType
	n := &node{api: api, name: "node", runtime: func() string { return "" }, pressure: func() []corev1.NodeConditionType { return short }}
	conditions := func() map[corev1.NodeConditionType]string {
		t.Helper()
		got := &corev1.Node{}
		err := errors.Join(n.register(t.Context()), api.Get(t.Context(), client.ObjectKey{Name: "node"}, got))
		if err != nil {
			t.Fatal(err)
		}
		said := map[corev1.NodeConditionType]string{}
		for _, c := range got.Status.Conditions {
			if c.Type != corev1.NodeReady {
				said[c.Type] = string(c.Status) + " " + c.Reason + ": " + c.Message
			}
		}
		return said
	}
	want := map[corev1.NodeConditionType]string{
		"MemoryPressure": "False KubeletHasSufficientMemory: kubelet has sufficient memory available",
		"DiskPressure":   "False KubeletHasNoDiskPressure: kubelet has no disk pressure",
		"PIDPressure":    "False KubeletHasSufficientPID: kubelet has sufficient PID available",
	}
	if diff := cmp.Diff(want, conditions()); diff != "" {
		t.Error(diff)
	}
	short = []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure}
	want["MemoryPressure"] = "True KubeletHasInsufficientMemory: kubelet has insufficient memory available"
	want["DiskPressure"] = "True KubeletHasDiskPressure: kubelet has disk pressure"
	if diff := cmp.Diff(want, conditions()); diff != "" {
		t.Error(diff)
	}
}

// The Lease says what the node is short of, and no more once that is over; a person's annotations
// stay.
func TestLeaseSaysPressure(t *testing.T) {
	api := newFakeAPI(t, interceptor.Funcs{})
	l := shimLease(api, nil, Options{NodeName: "node", Shared: options.Shared{Namespace: "system"}})
	for _, tt := range []struct {
		short []corev1.NodeConditionType
		want  string
	}{
		{[]corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodePIDPressure}, "MemoryPressure,PIDPressure"},
		{nil, ""},
	} {
		l.setPressure(tt.short)
		if err := l.reportHeld(t.Context(), "kept"); err != nil {
			t.Fatal(err)
		}
		got := &coordinationv1.Lease{}
		if err := api.Get(t.Context(), client.ObjectKey{Namespace: "system", Name: "managedworkload-shim-node"}, got); err != nil {
			t.Fatal(err)
		}
		if got.Annotations["managedworkload.dev/node-pressure"] != tt.want || got.Annotations["managedworkload.dev/orphans-held"] != "kept" {
			t.Errorf("annotations %v, want %q", got.Annotations, tt.want)
		}
	}
}

type podUsesFunc func() (map[types.UID]*plan.PodUse, error)

func (f podUsesFunc) PodUses(context.Context) (map[types.UID]*plan.PodUse, error) { return f() }

// Logs and volumes are measured only where the disk matters; what could be measured counts, and
// without an answer of the runtime nothing does.
func TestPodUses(t *testing.T) {
	t.Parallel()
	pods := []*corev1.Pod{
		{ObjectMeta: metav1.ObjectMeta{UID: "a"}}, {ObjectMeta: metav1.ObjectMeta{UID: "b"}}, {ObjectMeta: metav1.ObjectMeta{UID: "unknown"}},
	}
	one := plan.DiskUse{Bytes: new(int64(1)), Inodes: new(int64(2))}
	var err error
	u := &podUses{
		runtime: podUsesFunc(func() (map[types.UID]*plan.PodUse, error) {
			return map[types.UID]*plan.PodUse{"a": {Containers: []plan.ContainerUse{{Name: "c"}}}, "b": {}}, err
		}),
		disk: func(_ context.Context, pod *corev1.Pod) (diskusage.Use, error) {
			if pod.UID == "b" {
				panic("the file system is damaged")
			}
			return diskusage.Use{Volumes: map[string]plan.DiskUse{"v": one}, Logs: map[string]plan.DiskUse{"c": one}}, errors.New("not all")
		},
		log: logr.Discard(),
	}
	want := map[types.UID]*plan.PodUse{"a": {Containers: []plan.ContainerUse{{Name: "c"}}}, "b": {}}
	got, uErr := u.Uses(t.Context(), pods, false)
	if diff := cmp.Diff(want, got); diff != "" || uErr != nil {
		t.Error(diff, uErr)
	}
	want["a"].Containers[0].Logs = one
	want["a"].Volumes = []plan.VolumeUse{{Name: "v", DiskUse: one}}
	got, uErr = u.Uses(t.Context(), pods, true)
	if diff := cmp.Diff(want, got); diff != "" || uErr != nil {
		t.Error(diff, uErr)
	}
	err = errors.New("the runtime does not answer")
	if _, uErr = u.Uses(t.Context(), pods, true); !errors.Is(uErr, err) {
		t.Errorf("error %v", uErr)
	}
}
