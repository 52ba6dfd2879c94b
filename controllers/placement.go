// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// placement says what a template means on one node, in a DaemonSet's terms.
type placement struct {
	// shouldRun: a NodeWorkload is created when there is none.
	shouldRun bool
	// shouldContinue: an existing NodeWorkload is kept.
	shouldContinue bool
}

// placer decides about nodes for one template.
type placer struct {
	nodeName    string
	affinity    nodeaffinity.RequiredNodeAffinity
	tolerations []corev1.Toleration
}

func newPlacer(t *corev1.PodTemplateSpec) placer {
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeSelector: t.Spec.NodeSelector, Affinity: t.Spec.Affinity}}
	return placer{
		nodeName:    t.Spec.NodeName,
		affinity:    nodeaffinity.GetRequiredNodeAffinity(pod),
		tolerations: append(automaticTolerations(&t.Spec), t.Spec.Tolerations...),
	}
}

// place decides about one node as the DaemonSet controller does
// (daemon_controller.go:NodeShouldRunDaemonPod): a NoSchedule taint keeps new
// ones away, only a NoExecute taint ends what runs. A node affinity that cannot
// be parsed matches no node.
func (p placer) place(node *corev1.Node) placement {
	if p.nodeName != "" && p.nodeName != node.Name {
		return placement{}
	}
	if fits, err := p.affinity.Match(node); err != nil || !fits {
		return placement{}
	}
	continues := p.tolerates(node, corev1.TaintEffectNoExecute)
	return placement{
		shouldRun:      continues && p.tolerates(node, corev1.TaintEffectNoSchedule),
		shouldContinue: continues,
	}
}

func (p placer) tolerates(node *corev1.Node, effect corev1.TaintEffect) bool {
	_, untolerated := schedulinghelpers.FindMatchingUntoleratedTaint(logr.Discard(), node.Spec.Taints, p.tolerations,
		func(t *corev1.Taint) bool { return t.Effect == effect }, false)
	return !untolerated
}

// automaticTolerations are those that a DaemonSet's pods get
// (daemonset_util.go:AddOrUpdateDaemonPodTolerations), and that for a node which
// only keeps Pods away. The taints for a kubelet that is not ready or does not
// respond are tolerated with NoSchedule too: a shim does without a kubelet, its
// Lease tells whether it responds, and every new Node begins with that taint.
func automaticTolerations(spec *corev1.PodSpec) []corev1.Toleration {
	tolerate := func(key string, effect corev1.TaintEffect) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect}
	}
	tolerations := []corev1.Toleration{
		tolerate(v1alpha1.TaintNoPods, ""),
		tolerate(corev1.TaintNodeNotReady, ""),
		tolerate(corev1.TaintNodeUnreachable, ""),
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
