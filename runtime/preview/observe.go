// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package preview

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/runtime/cri"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// Runtime is what a preview reads from the container runtime.
type Runtime interface {
	// Ready and NetworkReady return why the runtime cannot be used.
	Ready(ctx context.Context) error
	NetworkReady(ctx context.Context) error
	// ListPods returns every pod, foreign ones too.
	ListPods(ctx context.Context) ([]cri.Pod, error)
	// PodStatus returns what the runtime has of a pod of the node's shim.
	PodStatus(ctx context.Context, uid types.UID) (*plan.PodStatus, error)
	// Images returns what the runtime calls images of a template.
	Images(ctx context.Context, names []string) plan.Images
}

// observation is what a look at the runtime brought.
type observation struct {
	uid            types.UID
	status         *plan.PodStatus
	images         plan.Images
	blocked, notes []string
}

// observe looks at the runtime for a NodeWorkload. One without a UID is found by
// its namespace and name.
func observe(ctx context.Context, r Runtime, nw *template.Workload) (observation, error) {
	pods, err := r.ListPods(ctx)
	if err != nil {
		return observation{}, err
	}
	o := observation{uid: nw.UID, status: &plan.PodStatus{}}
	instances := instancesOf(pods, nw)
	if o.uid == "" {
		if o.uid, err = o.find(instances, nw); err != nil {
			return observation{}, err
		}
	}
	if o.uid != "" {
		if o.status, err = r.PodStatus(ctx, o.uid); err != nil {
			return observation{}, err
		}
	}
	pod := template.Pod(nw)
	o.images = r.Images(ctx, plan.ImagesToAskFor(plan.ImageKeys(pod, podspec.InitAndMain(pod))))
	o.addBlocked(ctx, r, pods, nw)
	for _, uid := range instances {
		if uid != o.uid {
			o.blocked = append(o.blocked, fmt.Sprintf("another instance of the same name, %s, must be gone first", uid))
		}
	}
	return o, nil
}

// instancesOf returns the UIDs of the node's pods with the workload's name.
func instancesOf(pods []cri.Pod, nw *template.Workload) []types.UID {
	var uids []types.UID
	for _, p := range pods {
		if p.Ours && p.Namespace == nw.Namespace && p.Name == nw.Name {
			uids = append(uids, p.UID)
		}
	}
	return uids
}

func (o *observation) find(instances []types.UID, nw *template.Workload) (types.UID, error) {
	switch len(instances) {
	case 0:
		o.notes = append(o.notes, fmt.Sprintf("The UID of the NodeWorkload is not known, and the runtime has no pod named %s/%s.", nw.Namespace, nw.Name))
		return "", nil
	case 1:
		o.notes = append(o.notes, "The UID of the NodeWorkload is not known: its pod was found on the runtime by namespace and name.")
		return instances[0], nil
	}
	return "", fmt.Errorf("the UID of the NodeWorkload is not known, and the runtime has %d instances of %s/%s: %v",
		len(instances), nw.Namespace, nw.Name, instances)
}

// addBlocked finds out why a shim would not begin.
func (o *observation) addBlocked(ctx context.Context, r Runtime, pods []cri.Pod, nw *template.Workload) {
	if err := r.Ready(ctx); err != nil {
		o.blocked = append(o.blocked, err.Error())
	} else if err := r.NetworkReady(ctx); err != nil && !nw.Template.Spec.HostNetwork {
		o.blocked = append(o.blocked, err.Error())
	}
	if foreign := cri.ForeignPods(pods); foreign != "" {
		o.blocked = append(o.blocked, foreign)
	}
}
