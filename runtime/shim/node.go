// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	goruntime "runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/clock"
)

const (
	// labelRegisteredBy on a Node says that a shim keeps it: no other Node is
	// ever touched.
	labelRegisteredBy = "managedworkload.dev/registered-by"
	registeredByShim  = "shim"
	// nodeInterval is the time between two looks at the Node, and
	// heartbeatInterval the time between two writes when nothing changes.
	nodeInterval      = 10 * time.Second
	heartbeatInterval = time.Minute
	// Reasons of the Node's condition Ready.
	reasonShimReady    = "ShimReady"
	reasonShimNotReady = "ShimNotReady"
)

// errForeignNode says that the Node is not the shim's.
var errForeignNode = errors.New("a Node of this name exists that no shim registered; a kubelet may manage it")

// node keeps the Node object where there is no kubelet.
type node struct {
	api     client.Client
	clock   *clock.Clock
	name    string
	ips     []string
	runtime func() string
	// pressure are the conditions that the node has for being short of something; nil where
	// that is not looked at.
	pressure func() []corev1.NodeConditionType
	// written is when the status was last written: by the time of this process, because
	// the wall clock may be set back.
	written time.Time
	// shutsDown reports whether the machine shuts down, and kicked has that written.
	shutsDown func() bool
	kicked    <-chan struct{}
}

// keep registers the Node and keeps it alive until the context is done.
func (n *node) keep(ctx context.Context) error {
	keepTryingOr(ctx, nodeInterval, n.kicked, "update the Node", n.register)
	return nil
}

func (n *node) register(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	found := &corev1.Node{}
	err := n.api.Get(ctx, client.ObjectKey{Name: n.name}, found)
	if apierrors.IsNotFound(err) {
		found = n.fresh()
		if err := n.api.Create(ctx, found); err != nil {
			return fmt.Errorf("register node: %w", err)
		}
	} else if err != nil {
		return fmt.Errorf("get node: %w", err)
	}
	if found.Labels[labelRegisteredBy] != registeredByShim {
		return errForeignNode
	}
	if err := n.heartbeat(ctx, found); err != nil || n.readiness().Status != corev1.ConditionTrue {
		return err
	}
	return n.keepLabelsAndTaints(ctx, found)
}

// fresh is the Node as it is registered.
func (n *node) fresh() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:   n.name,
			Labels: n.labels(map[string]string{labelRegisteredBy: registeredByShim}),
		},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{noPods}},
	}
}

// labels adds to others what a kubelet says of its node. config/policy lets a shim
// change no other labels. (kubelet kubelet_node_status.go:updateDefaultLabels)
func (n *node) labels(others map[string]string) map[string]string {
	labels := maps.Clone(others)
	labels[corev1.LabelHostname] = n.name
	labels[corev1.LabelOSStable] = goruntime.GOOS
	labels[corev1.LabelArchStable] = goruntime.GOARCH
	return labels
}

// noPods keeps Pods away: there is no kubelet to run them.
var noPods = corev1.Taint{Key: v1alpha1.TaintNoPods, Effect: corev1.TaintEffectNoSchedule}

// notReady is what the API server puts on every new Node. (admission plugin
// TaintNodesByCondition)
var notReady = corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}

// keepLabelsAndTaints puts back what was removed, or was never there on a Node that an
// administrator made, and removes the taint that the API server gives a new Node: the
// Node is ready, and there may be no controller manager that would remove it.
func (n *node) keepLabelsAndTaints(ctx context.Context, found *corev1.Node) error {
	taints := slices.DeleteFunc(slices.Clone(found.Spec.Taints), func(t corev1.Taint) bool { return t.MatchTaint(&notReady) })
	if !slices.ContainsFunc(taints, func(t corev1.Taint) bool { return t.MatchTaint(&noPods) }) {
		taints = append(taints, noPods)
	}
	labels := n.labels(found.Labels)
	if equality.Semantic.DeepEqual(taints, found.Spec.Taints) && maps.Equal(labels, found.Labels) {
		return nil
	}
	base := found.DeepCopy()
	found.Spec.Taints, found.Labels = taints, labels
	if err := n.api.Patch(ctx, found, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("label and taint node: %w", err)
	}
	return nil
}

// heartbeat writes the Node's status when it changed or is a minute old.
func (n *node) heartbeat(ctx context.Context, found *corev1.Node) error {
	ready, condition := nodeCondition(found, corev1.NodeReady), n.readiness()
	now := metav1.NewTime(n.clock.Now())
	pressure := n.pressureConditions(now)
	if ready != nil && ready.Status == condition.Status && !n.written.IsZero() && time.Since(n.written) < heartbeatInterval && hasConditions(found, pressure) {
		return nil
	}
	base := found.DeepCopy()
	condition.LastHeartbeatTime, condition.LastTransitionTime = now, now
	setNodeCondition(found, condition)
	for _, c := range pressure {
		setNodeCondition(found, c)
	}
	found.Status.Capacity = capacity()
	found.Status.Allocatable = capacity()
	found.Status.Addresses = n.addresses()
	found.Status.NodeInfo = nodeInfo(n.runtime())
	// A strategic patch leaves the other conditions to those who write them.
	if err := n.api.Status().Patch(ctx, found, client.StrategicMergeFrom(base)); err != nil {
		return fmt.Errorf("write status of node: %w", err)
	}
	n.written = time.Now()
	return nil
}

// readiness is the Node's condition Ready. That of a node that shuts down is in the kubelet's
// words. (kubelet nodeshutdown_manager_linux.go:ShutdownStatus, nodestatus/setters.go:ReadyCondition)
func (n *node) readiness() corev1.NodeCondition {
	if n.shutsDown != nil && n.shutsDown() {
		return corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: reasonShimNotReady, Message: "node is shutting down"}
	}
	return corev1.NodeCondition{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: reasonShimReady, Message: "the shim runs; there is no kubelet",
	}
}

func (n *node) addresses() []corev1.NodeAddress {
	var addresses []corev1.NodeAddress
	for _, ip := range n.ips {
		addresses = append(addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: net.ParseIP(ip).String()})
	}
	return append(addresses, corev1.NodeAddress{Type: corev1.NodeHostName, Address: n.name})
}

// capacity is what the machine has. No Pods: nothing here would run one.
func capacity() corev1.ResourceList {
	list := corev1.ResourceList{
		corev1.ResourceCPU:  *resource.NewQuantity(int64(goruntime.NumCPU()), resource.DecimalSI),
		corev1.ResourcePods: *resource.NewQuantity(0, resource.DecimalSI),
	}
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err == nil {
		bytes := uint64(info.Totalram) * uint64(info.Unit) // Totalram has 32 bits on some machines
		list[corev1.ResourceMemory] = *resource.NewQuantity(int64(bytes), resource.BinarySI)
	}
	return list
}

func nodeInfo(runtime string) corev1.NodeSystemInfo {
	info := corev1.NodeSystemInfo{
		OperatingSystem:         goruntime.GOOS,
		Architecture:            goruntime.GOARCH,
		ContainerRuntimeVersion: runtime,
		BootID:                  bootID(),
		MachineID:               machineID(),
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err == nil {
		info.KernelVersion = unix.ByteSliceToString(name.Release[:])
	}
	return info
}

func machineID() string {
	data, err := os.ReadFile("/etc/machine-id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

func nodeCondition(n *corev1.Node, kind corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type == kind {
			return &n.Status.Conditions[i]
		}
	}
	return nil
}

// setNodeCondition keeps the time of a condition that does not change.
func setNodeCondition(n *corev1.Node, c corev1.NodeCondition) {
	before := nodeCondition(n, c.Type)
	if before == nil {
		n.Status.Conditions = append(n.Status.Conditions, c)
		return
	}
	if before.Status == c.Status {
		c.LastTransitionTime = before.LastTransitionTime
	}
	*before = c
}
