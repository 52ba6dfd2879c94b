// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"context"
	"errors"
	"io"

	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/cri"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// fakeRuntime answers from memory.
type fakeRuntime struct {
	pods                                   []cri.Pod
	status                                 map[types.UID]*plan.PodStatus
	images                                 plan.Images
	listErr, statusErr, ready, networkDown error
}

func (f *fakeRuntime) Ready(context.Context) error                 { return f.ready }
func (f *fakeRuntime) NetworkReady(context.Context) error          { return f.networkDown }
func (f *fakeRuntime) ListPods(context.Context) ([]cri.Pod, error) { return f.pods, f.listErr }
func (f *fakeRuntime) Close() error                                { return nil }
func (f *fakeRuntime) connect(_ context.Context, endpoint, _ string) (Runtime, io.Closer, error) {
	if endpoint != "unix:///fake" {
		return nil, nil, errors.New("no such endpoint")
	}
	return f, f, nil
}

func (f *fakeRuntime) PodStatus(_ context.Context, uid types.UID) (*plan.PodStatus, error) {
	if s := f.status[uid]; s != nil {
		return s, f.statusErr
	}
	return &plan.PodStatus{}, f.statusErr
}

// Images knows those that a example says something of.
func (f *fakeRuntime) Images(_ context.Context, names []string) plan.Images {
	known := plan.Images{}
	for _, name := range names {
		if ref, ok := f.images[name]; ok {
			known[name] = ref
		}
	}
	return known
}

// runs lets the runtime have a pod.
func (f *fakeRuntime) runs(nw *v1alpha1.NodeWorkload, edit func(*plan.PodStatus)) *fakeRuntime {
	observed := Running(template.Pod(template.Of(nw)))
	for i := range observed.Containers {
		c := &observed.Containers[i]
		c.ID, c.SandboxID = "id-"+c.Name, "id-sandbox"
	}
	observed.Sandboxes[0].ID = "id-sandbox"
	if edit != nil {
		edit(observed)
	}
	if f.status == nil {
		f.status = map[types.UID]*plan.PodStatus{}
	}
	f.status[nw.UID] = observed
	f.pods = append(f.pods, cri.Pod{UID: nw.UID, Namespace: nw.Namespace, Name: nw.Name, Ours: true, Instance: nw.Spec.NodeName})
	return f
}
