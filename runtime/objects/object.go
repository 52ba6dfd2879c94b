// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"slices"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/api/subresources/v1alpha1"
)

func metaOf(sent *v1alpha1.NodeObject) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: sent.Namespace, Name: sent.ObjectName, UID: sent.ObjectUID, ResourceVersion: sent.ObjectVersion,
	}
}

// configMapOf returns the ConfigMap that was sent. Its two kinds of data arrive as one; what
// is no text is binary also where a manager does not say so.
func configMapOf(sent *v1alpha1.NodeObject) *corev1.ConfigMap {
	c := &corev1.ConfigMap{ObjectMeta: metaOf(sent), Immutable: ptr.To(sent.Immutable)}
	for key, value := range sent.Data {
		if _, binary := slices.BinarySearch(sent.BinaryKeys, key); !binary && utf8.Valid(value) {
			if c.Data == nil {
				c.Data = map[string]string{}
			}
			c.Data[key] = string(value)
			continue
		}
		if c.BinaryData == nil {
			c.BinaryData = map[string][]byte{}
		}
		c.BinaryData[key] = value
	}
	return c
}

func secretOf(sent *v1alpha1.NodeObject) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metaOf(sent), Immutable: ptr.To(sent.Immutable), Type: sent.SecretType, Data: sent.Data,
	}
}
