// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package managertest

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// Kstatus is what sigs.k8s.io/cli-utils computes for a custom resource with
// these conditions, re-stated from its rules.
func Kstatus(mw *v1alpha1.ManagedWorkload) string {
	if !mw.DeletionTimestamp.IsZero() {
		return "Terminating"
	}
	if mw.Status.ObservedGeneration != mw.Generation {
		return "InProgress"
	}
	for _, c := range mw.Status.Conditions {
		switch {
		case c.Type == v1alpha1.ConditionReconciling && c.Status == metav1.ConditionTrue:
			return "InProgress"
		case c.Type == v1alpha1.ConditionStalled && c.Status == metav1.ConditionTrue:
			return "Failed"
		}
	}
	if c := meta.FindStatusCondition(mw.Status.Conditions, v1alpha1.ConditionReady); c != nil && c.Status != metav1.ConditionTrue {
		return "InProgress"
	}
	return "Current"
}

// Dump is an object as YAML.
func Dump(obj any) string {
	out, err := yaml.Marshal(obj)
	if err != nil {
		return err.Error()
	}
	return string(out)
}
