// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package localstack

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The ClusterRoles that a namespace binds to the manager, as docs/objects.md describes.
const (
	ObjectsRole = "managedworkload-objects"
	TokensRole  = "managedworkload-tokens"
)

// Grant is the binding by which a namespace gives the manager the rights of a ClusterRole.
func Grant(namespace, role string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: role},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: SystemNamespace, Name: "managedworkload-manager"}},
	}
}
