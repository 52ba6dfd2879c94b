// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package writes

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

const kindManagedWorkload = "ManagedWorkload"

// OwnerReference makes mw the controller of a NodeWorkload.
func OwnerReference(mw *v1alpha1.ManagedWorkload) metav1.OwnerReference {
	return *metav1.NewControllerRef(mw, v1alpha1.GroupVersion.WithKind(kindManagedWorkload))
}

// isWorkloadReference reports whether a reference is to a ManagedWorkload.
func isWorkloadReference(ref *metav1.OwnerReference) bool {
	return ref.Kind == kindManagedWorkload && ref.APIVersion == v1alpha1.GroupVersion.String()
}

// WorkloadReference is the reference to the ManagedWorkload that controls nw, or
// nil.
func WorkloadReference(nw metav1.Object) *metav1.OwnerReference {
	if ref := metav1.GetControllerOfNoCopy(nw); ref != nil && isWorkloadReference(ref) {
		return ref
	}
	return nil
}

// ControllerUID is the UID of the ManagedWorkload that controls nw, or "".
func ControllerUID(nw *v1alpha1.NodeWorkload) types.UID {
	if ref := WorkloadReference(nw); ref != nil {
		return ref.UID
	}
	return ""
}
