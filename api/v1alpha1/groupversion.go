// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of the types in this package.
var GroupVersion = schema.GroupVersion{Group: "managedworkload.dev", Version: "v1alpha1"}

// AddToScheme registers the types of this package with a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&ManagedWorkload{}, &ManagedWorkloadList{},
		&NodeWorkload{}, &NodeWorkloadList{},
		&ManagedWorkloadRevision{}, &ManagedWorkloadRevisionList{},
		&KillRequest{}, &KillRequestList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
