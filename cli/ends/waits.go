// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package ends

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// Wait is something that is not as it should be.
type Wait struct {
	// Subject is the ManagedWorkload or a node, and a container of it.
	Subject string `json:"subject"`
	Node    string `json:"node,omitempty"`
	// Reason is that of the condition, or of a container that waits.
	Reason string       `json:"reason"`
	Text   string       `json:"text"`
	Since  *metav1.Time `json:"since,omitempty"`
}

// good are the conditions of a NodeWorkload that should be True; the others should be False
// or absent.
var good = []string{
	v1alpha1.ConditionReady, v1alpha1.ConditionContainersReady, v1alpha1.ConditionInitialized,
	v1alpha1.ConditionPodReadyToStartContainers, v1alpha1.ConditionShimResponding,
	v1alpha1.ConditionTemplateAccepted, v1alpha1.ConditionRuntimeUsable, v1alpha1.ConditionReserved,
}

// implied are the conditions that say no more than Ready while that is not True.
var implied = []string{v1alpha1.ConditionContainersReady, v1alpha1.ConditionInitialized}

// Waits returns what keeps a ManagedWorkload, which may be nil, and its nodes from being as
// they should, and which nodes are drained of it; of NodeWorkloads only those of one node if that is given.
func Waits(mw *v1alpha1.ManagedWorkload, nodes []v1alpha1.NodeWorkload, node string) []Wait {
	waits := []Wait{}
	if mw != nil {
		waits = append(waits, ofWorkload(mw)...)
	}
	sorted := slices.SortedFunc(slices.Values(nodes), func(a, b v1alpha1.NodeWorkload) int {
		return strings.Compare(a.Spec.NodeName, b.Spec.NodeName)
	})
	for i := range sorted {
		if nw := &sorted[i]; node == "" || node == nw.Spec.NodeName {
			waits = append(waits, ofNode(nw)...)
		}
	}
	return waits
}

func ofWorkload(mw *v1alpha1.ManagedWorkload) []Wait {
	var waits []Wait
	for _, c := range mw.Status.Conditions {
		bad := (c.Type == v1alpha1.ConditionAccepted || c.Type == v1alpha1.ConditionObjectsAvailable) && c.Status != metav1.ConditionTrue ||
			(c.Type == v1alpha1.ConditionStalled || c.Type == v1alpha1.ConditionReconciling) && c.Status == metav1.ConditionTrue
		// A refused template is Stalled for the same reason.
		repeated := c.Type == v1alpha1.ConditionStalled && meta.IsStatusConditionFalse(mw.Status.Conditions, v1alpha1.ConditionAccepted)
		if bad && !repeated {
			waits = append(waits, Wait{Subject: mw.Name, Reason: c.Reason, Text: words(c), Since: c.LastTransitionTime.DeepCopy()})
		}
	}
	// Ready names the drained nodes whether it is True or not, but its transition time is not when they were drained.
	ready := meta.FindStatusCondition(mw.Status.Conditions, v1alpha1.ConditionReady)
	known := func(w Wait) bool { return strings.Contains(w.Text, ready.Message) }
	if mw.Status.DrainedNodes > 0 && ready != nil && !slices.ContainsFunc(waits, known) {
		waits = append(waits, Wait{Subject: mw.Name, Reason: ready.Reason, Text: words(*ready)})
	}
	return waits
}

func ofNode(nw *v1alpha1.NodeWorkload) []Wait {
	if nw.Status.Phase == corev1.PodSucceeded {
		return nil
	}
	var waits []Wait
	for _, c := range nw.Status.Conditions {
		wanted := metav1.ConditionFalse
		if slices.Contains(good, c.Type) {
			wanted = metav1.ConditionTrue
		}
		if c.Status == wanted || slices.Contains(implied, c.Type) {
			continue
		}
		waits = append(waits, Wait{Subject: nw.Spec.NodeName, Node: nw.Spec.NodeName, Reason: c.Reason, Text: words(c), Since: c.LastTransitionTime.DeepCopy()})
	}
	for _, s := range slices.Concat(nw.Status.InitContainerStatuses, nw.Status.ContainerStatuses) {
		if w := s.State.Waiting; w != nil && w.Reason != "PodInitializing" {
			text := w.Reason
			if w.Message != "" {
				text += ": " + w.Message
			}
			waits = append(waits, Wait{Subject: nw.Spec.NodeName + " " + s.Name, Node: nw.Spec.NodeName, Reason: w.Reason, Text: text})
		}
	}
	return waits
}

func words(c metav1.Condition) string {
	text := fmt.Sprintf("%s is %s, %s", c.Type, c.Status, c.Reason)
	if c.Message != "" {
		text += ": " + c.Message
	}
	return text
}
