// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/runtimeerror"
)

// Pod is a pod that the runtime has something of, as listed.
type Pod struct {
	UID             types.UID
	Namespace, Name string
	// Ours reports whether this shim created its sandboxes, or containers that have
	// lost theirs: its marker and its instance are on them.
	Ours bool
	// Instance and ClusterID are those of the shim that created it; empty when no
	// shim did.
	Instance, ClusterID string
	// Sandboxes and Containers are the IDs of what there is, newest first.
	Sandboxes, Containers []string
	// Alive reports whether a sandbox is ready or a container runs.
	Alive bool
	// Foreign are containers that the shim did not create, in its sandboxes, that may
	// run.
	Foreign []plan.ForeignContainer
	// Dead is how many instances that do not run a container has at most.
	Dead int
	// states are those of Sandboxes and Containers.
	states []int32
}

// Changed reports whether a pod differs from what an earlier list had.
func (p Pod) Changed(before Pod) bool {
	return !slices.Equal(p.Sandboxes, before.Sandboxes) || !slices.Equal(p.Containers, before.Containers) ||
		!slices.Equal(p.states, before.states)
}

// ListPods returns every pod that the runtime has a sandbox or a container of,
// by UID, foreign ones too.
func (c *Client) ListPods(ctx context.Context) ([]Pod, error) {
	sandboxes, containers, err := c.list(ctx, nil)
	if err != nil {
		return nil, err
	}
	pods := map[types.UID]*Pod{}
	owners := map[string]*Pod{} // by sandbox
	dead := map[instanceOf]int{}
	for _, s := range sandboxes {
		uid := cmp.Or(types.UID(s.GetLabels()[labelPodUID]), types.UID(s.GetMetadata().GetUid()), types.UID(s.GetId()))
		p := c.join(pods, uid, s.GetLabels())
		p.Name = cmp.Or(p.Name, s.GetMetadata().GetName())
		p.Namespace = cmp.Or(p.Namespace, s.GetMetadata().GetNamespace())
		p.Sandboxes = append(p.Sandboxes, s.GetId())
		p.states = append(p.states, int32(s.GetState()))
		p.Alive = p.Alive || s.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY
		owners[s.GetId()] = p
	}
	for _, ctr := range containers {
		p := owners[ctr.GetPodSandboxId()]
		if p == nil {
			p = c.join(pods, cmp.Or(types.UID(ctr.GetLabels()[labelPodUID]), types.UID(ctr.GetPodSandboxId())), ctr.GetLabels())
		}
		p.Containers = append(p.Containers, ctr.GetId())
		p.states = append(p.states, int32(ctr.GetState()))
		p.Alive = p.Alive || ctr.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING
		c.count(p, ctr, dead)
	}
	out := make([]Pod, 0, len(pods))
	for _, p := range pods {
		out = append(out, *p)
	}
	c.keepForeign(out)
	slices.SortFunc(out, func(a, b Pod) int { return cmp.Compare(a.UID, b.UID) })
	return out, nil
}

// join adds a sandbox, or a container without one, to the pod of that UID.
func (c *Client) join(pods map[types.UID]*Pod, uid types.UID, labels map[string]string) *Pod {
	p := pods[uid]
	if p == nil {
		p = &Pod{UID: uid, Ours: true}
		pods[uid] = p
	}
	p.Name = cmp.Or(p.Name, labels[labelPodName])
	p.Namespace = cmp.Or(p.Namespace, labels[labelPodNamespace])
	p.Instance = cmp.Or(p.Instance, labels[LabelInstance])
	p.ClusterID = cmp.Or(p.ClusterID, labels[LabelCluster])
	p.Ours = p.Ours && c.ours(labels)
	return p
}

// ours reports whether this shim created what has these labels.
func (c *Client) ours(labels map[string]string) bool {
	return labels[LabelManagedBy] == ManagedByShim && labels[LabelInstance] == c.config.Instance
}

// list returns sandboxes and containers with all these labels, newest first.
func (c *Client) list(ctx context.Context, labels map[string]string) ([]*runtimeapi.PodSandbox, []*runtimeapi.Container, error) {
	s, err := invoke(ctx, c.callTimeout, "list sandboxes", c.runtime.ListPodSandbox,
		&runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{LabelSelector: labels}})
	if err != nil {
		return nil, nil, err
	}
	ctr, err := invoke(ctx, c.callTimeout, "list containers", c.runtime.ListContainers,
		&runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{LabelSelector: labels}})
	if err != nil {
		return nil, nil, err
	}
	sandboxes, containers := s.GetItems(), ctr.GetContainers()
	slices.SortFunc(sandboxes, newerSandbox(sandboxes))
	slices.SortStableFunc(containers, func(a, b *runtimeapi.Container) int {
		return cmp.Or(cmp.Compare(b.GetCreatedAt(), a.GetCreatedAt()), cmp.Compare(a.GetId(), b.GetId()))
	})
	return sandboxes, containers, nil
}

// newerSandbox orders sandboxes newest first: by attempt, then by time; by time
// alone when one of them has no metadata, or the order would depend on the
// list's. (kubelet kuberuntime/helpers.go:podSandboxByCreatedThenID)
func newerSandbox(all []*runtimeapi.PodSandbox) func(a, b *runtimeapi.PodSandbox) int {
	byTime := func(a, b *runtimeapi.PodSandbox) int {
		return cmp.Or(cmp.Compare(b.GetCreatedAt(), a.GetCreatedAt()), cmp.Compare(a.GetId(), b.GetId()))
	}
	if slices.ContainsFunc(all, func(s *runtimeapi.PodSandbox) bool { return s.GetMetadata() == nil }) {
		return byTime
	}
	return func(a, b *runtimeapi.PodSandbox) int {
		return cmp.Or(cmp.Compare(b.GetMetadata().GetAttempt(), a.GetMetadata().GetAttempt()), byTime(a, b))
	}
}

// listPod lists what this shim has of one pod.
func (c *Client) listPod(ctx context.Context, uid types.UID) ([]*runtimeapi.PodSandbox, []*runtimeapi.Container, error) {
	return c.list(ctx, c.labelsOf(uid))
}

// labelsOf are those of all that this shim has of one pod.
func (c *Client) labelsOf(uid types.UID) map[string]string {
	return map[string]string{labelPodUID: string(uid), LabelManagedBy: ManagedByShim, LabelInstance: c.config.Instance}
}

// PodStatus observes one pod: its sandboxes and containers newest first, with
// what was recorded at their creation and termination messages. Foreign
// containers are those of the last ListPods. What goes away while it looks is left
// out. A pod that the runtime has nothing of has an empty status. What a status
// points to is shared with later ones and must not be changed.
// (kubelet kuberuntime_manager.go:GetPodStatus)
func (c *Client) PodStatus(ctx context.Context, uid types.UID) (*plan.PodStatus, error) {
	sandboxes, containers, err := c.listPod(ctx, uid)
	if err != nil {
		return nil, err
	}
	out := &plan.PodStatus{ID: string(uid)}
	active := ""
	for i, s := range sandboxes {
		observed, err := c.observeSandbox(ctx, uid, s)
		if runtimeerror.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out.Name, out.Namespace = cmp.Or(out.Name, s.GetMetadata().GetName()), cmp.Or(out.Namespace, s.GetMetadata().GetNamespace())
		out.Sandboxes = append(out.Sandboxes, observed)
		out.Foreign = append(out.Foreign, c.foreignIn(uid, observed)...)
		if i == 0 && observed.State == plan.SandboxReady {
			active, out.IPs = observed.ID, sandboxIPs(observed.Network)
		}
	}
	for _, ctr := range containers {
		observed, err := c.observeContainer(ctx, uid, ctr)
		if runtimeerror.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out.Name = cmp.Or(out.Name, ctr.GetLabels()[labelPodName])
		out.Namespace = cmp.Or(out.Namespace, ctr.GetLabels()[labelPodNamespace])
		out.Containers = append(out.Containers, observed)
	}
	sortContainers(out.Containers)
	for i := range out.Containers {
		if active != "" && out.Containers[i].SandboxID == active {
			out.ActiveContainerIDs = append(out.ActiveContainerIDs, out.Containers[i].ID)
		}
	}
	return out, nil
}

// observeSandbox returns the status of a listed sandbox, from memory when
// nothing can have changed.
func (c *Client) observeSandbox(ctx context.Context, uid types.UID, s *runtimeapi.PodSandbox) (plan.SandboxStatus, error) {
	if known, ok := c.statuses.sandbox(s.GetId(), sandboxState(s.GetState())); ok {
		return known, nil
	}
	observed, err := c.SandboxStatus(ctx, s.GetId())
	if err != nil {
		return plan.SandboxStatus{}, err
	}
	c.statuses.keepSandbox(uid, observed)
	return observed, nil
}

// observeContainer returns the status of a listed container, from memory when
// nothing can have changed.
func (c *Client) observeContainer(ctx context.Context, uid types.UID, ctr *runtimeapi.Container) (plan.ContainerStatus, error) {
	if known, ok := c.statuses.container(ctr.GetId(), containerState(ctr.GetState())); ok {
		return known, nil
	}
	observed, err := c.ContainerStatus(ctx, ctr.GetId())
	if err != nil {
		return plan.ContainerStatus{}, err
	}
	observed.SandboxID = cmp.Or(ctr.GetPodSandboxId(), observed.SandboxID)
	c.statuses.keepContainer(uid, observed)
	return observed, nil
}

// sandboxIPs returns the addresses of a sandbox; none if one can't be read.
// (kubelet kuberuntime_sandbox.go:determinePodSandboxIPs)
func sandboxIPs(network *plan.SandboxNetwork) []string {
	if network == nil {
		return nil
	}
	var ips []string
	if network.IP != "" {
		ips = append(ips, network.IP)
	}
	ips = append(ips, network.AdditionalIPs...)
	for _, ip := range ips {
		if _, err := netip.ParseAddr(ip); err != nil {
			return nil
		}
	}
	return ips
}

// SandboxStatus reads one sandbox.
func (c *Client) SandboxStatus(ctx context.Context, id string) (plan.SandboxStatus, error) {
	operation := quote("read the status of sandbox", id)
	response, err := invoke(ctx, c.callTimeout, operation, c.runtime.PodSandboxStatus,
		&runtimeapi.PodSandboxStatusRequest{PodSandboxId: id})
	if err != nil {
		return plan.SandboxStatus{}, err
	}
	if response.GetStatus() == nil {
		return plan.SandboxStatus{}, badAnswer(operation, "the runtime's answer is empty")
	}
	return convertSandbox(response.GetStatus()), nil
}

// ContainerStatus reads one container, with its termination message when it has
// exited.
func (c *Client) ContainerStatus(ctx context.Context, id string) (plan.ContainerStatus, error) {
	s, err := c.rawContainerStatus(ctx, id)
	if err != nil {
		return plan.ContainerStatus{}, err
	}
	out, warnings := convertContainer(s)
	if !c.ours(s.GetLabels()) {
		out.PodUID = "" // anyone can make a container with the UID of our pod
	}
	warn(logr.FromContextOrDiscard(ctx).WithValues("containerID", id, "container", out.Name), warnings)
	if out.State == plan.ContainerExited {
		c.files.addTerminationMessage(ctx, &out, s.GetMounts())
	}
	return out, nil
}

func (c *Client) rawContainerStatus(ctx context.Context, id string) (*runtimeapi.ContainerStatus, error) {
	operation := quote("read the status of container", id)
	response, err := invoke(ctx, c.callTimeout, operation, c.runtime.ContainerStatus,
		&runtimeapi.ContainerStatusRequest{ContainerId: id})
	if err != nil {
		return nil, err
	}
	if response.GetStatus() == nil {
		return nil, badAnswer(operation, "the runtime's answer is empty")
	}
	return response.GetStatus(), nil
}

// at converts nanoseconds since the epoch; 0 is no time.
func at(nanoseconds int64) time.Time {
	if nanoseconds == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanoseconds)
}
