// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// GroupVersion of the aggregated API.
var GroupVersion = schema.GroupVersion{Group: "subresources.managedworkload.dev", Version: "v1alpha1"}

// AddToScheme adds the types of the aggregated API.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &NodeObject{}, &NodeObjectList{}, &NodeUsage{}, &NodeUsageList{}, &WorkloadUsage{}, &WorkloadUsageList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// ObjectState says what is known of an object that a template refers to.
type ObjectState string

const (
	// ObjectPresent means that Data is what the object has.
	ObjectPresent ObjectState = "Present"
	// ObjectNotFound means that the API server has no such object.
	ObjectNotFound ObjectState = "NotFound"
	// ObjectForbidden means that the namespace does not let the manager read it; Message names the
	// command that does.
	ObjectForbidden ObjectState = "Forbidden"
	// ObjectUnavailable means that it could not be read; Message says why. What was sent before holds.
	ObjectUnavailable ObjectState = "Unavailable"
)

// NodeObject is a ConfigMap or Secret that a NodeWorkload of a node refers to, or the ServiceAccount
// of the tokens that it asks for, of which nothing but State and ObjectUID is known. Its
// namespace is that of the object; its name is made of ObjectKind and ObjectName
// (NodeObjectName), so that it is unique in the namespace.
// +kubebuilder:object:root=true
type NodeObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// ObjectKind is ConfigMap, Secret or ServiceAccount.
	ObjectKind string `json:"objectKind"`
	// ObjectName is the object's name.
	ObjectName string `json:"objectName"`
	// ObjectUID is the object's UID: one that was deleted and made again is another object.
	ObjectUID types.UID `json:"objectUID,omitempty"`
	// ObjectVersion is the object's resourceVersion.
	ObjectVersion string `json:"objectVersion,omitempty"`
	// State of the object.
	State ObjectState `json:"state"`
	// Message for people, without any of the object's data.
	Message string `json:"message,omitempty"`
	// Immutable objects do not change any more.
	Immutable bool `json:"immutable,omitempty"`
	// SecretType is a Secret's type.
	SecretType corev1.SecretType `json:"secretType,omitempty"`
	// Data is what the object has: a ConfigMap's data and binaryData, or a Secret's data.
	Data map[string][]byte `json:"data,omitempty"`
	// BinaryKeys are the keys of Data that are a ConfigMap's binaryData, in their order:
	// variables are made of the others only.
	BinaryKeys []string `json:"binaryKeys,omitempty"`
}

// NodeObjectName is the name of the NodeObject that stands for an object.
func NodeObjectName(kind, name string) string {
	switch kind {
	case "ConfigMap":
		return "configmap." + name
	case "Secret":
		return "secret." + name
	case "ServiceAccount":
		return "serviceaccount." + name
	}
	return kind + "." + name
}

// NodeObjectList is what a list answers with. It is empty: a watch sends what there is
// first, and then a bookmark with the annotation k8s.io/initial-events-end.
// +kubebuilder:object:root=true
type NodeObjectList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeObject `json:"items"`
}
