// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// Placement is what a template means on one node, in a DaemonSet's terms. Neither
// field set: what runs there must end.
type Placement struct {
	// ShouldRun: a NodeWorkload is created when there is none.
	ShouldRun bool
	// ShouldContinue: an existing NodeWorkload is kept.
	ShouldContinue bool
	// Drained: it would run, were the node not drained.
	Drained bool
}

// Placer decides about nodes for one template.
type Placer struct {
	nodeName    string
	selector    nodeaffinity.RequiredNodeAffinity
	affinity    nodeaffinity.RequiredNodeAffinity
	tolerations []corev1.Toleration
}

// New returns the placer of a template.
func New(t *corev1.PodTemplateSpec) Placer {
	required := func(spec corev1.PodSpec) nodeaffinity.RequiredNodeAffinity {
		return nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: spec})
	}
	return Placer{
		nodeName:    t.Spec.NodeName,
		selector:    required(corev1.PodSpec{NodeSelector: t.Spec.NodeSelector}),
		affinity:    required(corev1.PodSpec{Affinity: t.Spec.Affinity}),
		tolerations: append(automaticTolerations(&t.Spec), t.Spec.Tolerations...),
	}
}

// Place decides about one node as the DaemonSet controller does
// (daemon_controller.go:NodeShouldRunDaemonPod): a NoSchedule taint keeps new
// ones away, only a NoExecute taint ends what runs. A node affinity that cannot
// be parsed matches no node.
func (p Placer) Place(node *corev1.Node) Placement {
	placement, _ := p.decide(node)
	return placement
}

// Reason returns why a node does not get the workload, or loses it: the first
// field of the template or taint of the node that says so; "" if it should run.
func (p Placer) Reason(node *corev1.Node) string {
	_, reason := p.decide(node)
	return reason
}

func (p Placer) decide(node *corev1.Node) (Placement, string) {
	if p.nodeName != "" && p.nodeName != node.Name {
		return Placement{}, fmt.Sprintf("spec.nodeName is %q", p.nodeName)
	}
	if fits, err := p.selector.Match(node); err != nil || !fits {
		return Placement{}, "spec.nodeSelector does not match the node's labels"
	}
	switch fits, err := p.affinity.Match(node); {
	case err != nil:
		return Placement{}, fmt.Sprintf("spec.affinity.nodeAffinity cannot be parsed: %v", err)
	case !fits:
		return Placement{}, "spec.affinity.nodeAffinity does not match the node"
	}
	placement, reason := p.byTaints(node)
	if hold, found := p.drained(node); found {
		return Placement{ShouldContinue: hold, Drained: placement.ShouldRun}, "spec.tolerations does not name the taint " + v1alpha1.TaintDrain
	}
	return placement, reason
}

// byTaints decides by all taints but that of a drain.
func (p Placer) byTaints(node *corev1.Node) (Placement, string) {
	if taint, found := p.untolerated(node, corev1.TaintEffectNoExecute); found {
		return Placement{}, fmt.Sprintf("spec.tolerations does not tolerate the taint %s", taint.ToString())
	}
	if taint, found := p.untolerated(node, corev1.TaintEffectNoSchedule); found {
		return Placement{ShouldContinue: true}, fmt.Sprintf("spec.tolerations does not tolerate the taint %s", taint.ToString())
	}
	return Placement{ShouldRun: true, ShouldContinue: true}, ""
}

// untolerated returns the first taint of an effect that is not tolerated.
func (p Placer) untolerated(node *corev1.Node, effect corev1.TaintEffect) (corev1.Taint, bool) {
	return schedulinghelpers.FindMatchingUntoleratedTaint(logr.Discard(), node.Spec.Taints, p.tolerations,
		func(t *corev1.Taint) bool { return t.Effect == effect && t.Key != v1alpha1.TaintDrain }, false)
}

// drained reports whether a node is drained of the workload, and whether what runs there is
// still held. Only a toleration that names the taint keeps a workload: agents that run
// everywhere tolerate everything, and a drain is for them too. The effect plays no part, so that
// the taint can leave Pods alone.
func (p Placer) drained(node *corev1.Node) (hold, found bool) {
	if slices.ContainsFunc(p.tolerations, func(t corev1.Toleration) bool { return t.Key == v1alpha1.TaintDrain }) {
		return false, false
	}
	hold = true
	for i := range node.Spec.Taints {
		if t := &node.Spec.Taints[i]; t.Key == v1alpha1.TaintDrain {
			found = true
			hold = hold && t.Value == v1alpha1.TaintDrainHold
		}
	}
	return hold, found
}

// automaticTolerations are those that a DaemonSet's pods get, and that for a node which
// only keeps Pods away. The taints for a kubelet that is not ready or does not
// respond are tolerated with NoSchedule too: a shim does without a kubelet, its
// Lease says whether it responds, and every new Node starts with that taint.
func automaticTolerations(spec *corev1.PodSpec) []corev1.Toleration {
	return append(DaemonTolerations(spec),
		tolerate(v1alpha1.TaintNoPods, ""), tolerate(corev1.TaintNodeNotReady, ""), tolerate(corev1.TaintNodeUnreachable, ""))
}

// DaemonTolerations are those that a DaemonSet's Pod gets.
// (daemonset_util.go:AddOrUpdateDaemonPodTolerations)
func DaemonTolerations(spec *corev1.PodSpec) []corev1.Toleration {
	tolerations := []corev1.Toleration{
		tolerate(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute),
		tolerate(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute),
		tolerate(corev1.TaintNodeDiskPressure, corev1.TaintEffectNoSchedule),
		tolerate(corev1.TaintNodeMemoryPressure, corev1.TaintEffectNoSchedule),
		tolerate(corev1.TaintNodePIDPressure, corev1.TaintEffectNoSchedule),
		tolerate(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule),
	}
	if spec.HostNetwork {
		tolerations = append(tolerations, tolerate(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule))
	}
	return tolerations
}

// tolerate tolerates a taint with an effect, any if that is empty.
func tolerate(key string, effect corev1.TaintEffect) corev1.Toleration {
	return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect}
}
