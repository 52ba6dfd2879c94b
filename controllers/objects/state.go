// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apiobjects "github.com/managedworkload/managedworkload/api/objects"
	subresources "github.com/managedworkload/managedworkload/api/subresources/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/writes"
)

// maxError bounds what is passed on of an error.
const maxError = 512

// blank is the NodeObject of a key without anything that is known of the object.
func blank(key apiobjects.Key) *subresources.NodeObject {
	return &subresources.NodeObject{
		TypeMeta:   metav1.TypeMeta{APIVersion: subresources.GroupVersion.String(), Kind: "NodeObject"},
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: subresources.NodeObjectName(string(key.Kind), key.Name)},
		ObjectKind: string(key.Kind),
		ObjectName: key.Name,
	}
}

// present is the NodeObject of a ConfigMap or Secret as the API server has it.
func present(key apiobjects.Key, obj any) (*subresources.NodeObject, error) {
	state := blank(key)
	state.State = subresources.ObjectPresent
	switch obj := obj.(type) {
	case *corev1.ConfigMap:
		state.ObjectUID, state.ObjectVersion = obj.UID, obj.ResourceVersion
		state.Immutable = obj.Immutable != nil && *obj.Immutable
		state.Data = make(map[string][]byte, len(obj.Data)+len(obj.BinaryData))
		for name, text := range obj.Data {
			state.Data[name] = []byte(text)
		}
		maps.Copy(state.Data, obj.BinaryData)
		state.BinaryKeys = slices.Sorted(maps.Keys(obj.BinaryData))
	case *corev1.Secret:
		state.ObjectUID, state.ObjectVersion = obj.UID, obj.ResourceVersion
		state.Immutable = obj.Immutable != nil && *obj.Immutable
		state.SecretType, state.Data = obj.Type, obj.Data
	default:
		return nil, fmt.Errorf("a %T is no ConfigMap and no Secret", obj)
	}
	return state, nil
}

// notFound is the NodeObject of an object that the API server does not have.
func notFound(key apiobjects.Key) *subresources.NodeObject {
	state := blank(key)
	state.State = subresources.ObjectNotFound
	state.Message = fmt.Sprintf("%s %q not found", strings.ToLower(string(key.Kind)), key.Name)
	return state
}

// forbidden is the NodeObject of an object that the manager may not read.
func forbidden(key apiobjects.Key, binding string) *subresources.NodeObject {
	state := blank(key)
	state.State, state.Message = subresources.ObjectForbidden, noRight(key.Namespace, []apiobjects.Ref{key.Ref}, binding)
	return state
}

// unavailable is the NodeObject of an object that could not be read.
func unavailable(key apiobjects.Key, why string) *subresources.NodeObject {
	state := blank(key)
	state.State, state.Message = subresources.ObjectUnavailable, writes.Limit(why, maxError)
	return state
}

// maxNamed is how many objects a message names.
const maxNamed = 3

// noRight says which objects of a namespace the manager may not read, and what gives the
// right. binding are arguments of kubectl create rolebinding.
func noRight(namespace string, refs []apiobjects.Ref, binding string) string {
	ofNamespace := slices.DeleteFunc(slices.Clone(refs), func(ref apiobjects.Ref) bool {
		return ref == apiobjects.Ref{Kind: apiobjects.ConfigMap, Name: apiobjects.RootCA}
	})
	if len(ofNamespace) == 0 {
		return fmt.Sprintf("the manager may not read %s; the component objects gives it the right", Named(refs))
	}
	return fmt.Sprintf("the manager may not read %s in namespace %s; run: %s", Named(ofNamespace), namespace, command(namespace, binding))
}

// command gives the manager the right to read the objects of a namespace.
func command(namespace, binding string) string {
	return fmt.Sprintf("kubectl create rolebinding managedworkload-objects %s -n %s", binding, namespace)
}

// Named lists objects in words, the first ones by name.
func Named(refs []apiobjects.Ref) string {
	words := make([]string, 0, maxNamed)
	for _, ref := range refs[:min(len(refs), maxNamed)] {
		words = append(words, named(ref))
	}
	return listed(words, len(refs))
}

// listed joins the first words of so many.
func listed(words []string, all int) string {
	text := strings.Join(words, ", ")
	if more := all - len(words); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func named(ref apiobjects.Ref) string {
	return fmt.Sprintf("%s %q", strings.ToLower(string(ref.Kind)), ref.Name)
}

// failed is what is known of an object after an error, nil where what was known before holds.
func failed(before *subresources.NodeObject, key apiobjects.Key, err error, binding func() string) *subresources.NodeObject {
	switch {
	case apierrors.IsForbidden(err):
		return forbidden(key, binding())
	case before == nil:
		return unavailable(key, err.Error())
	}
	return nil
}

// same reports whether a node would do the same with two NodeObjects of one key.
func same(a, b *subresources.NodeObject) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.State == b.State && a.Message == b.Message && a.ObjectUID == b.ObjectUID && a.Immutable == b.Immutable &&
		a.SecretType == b.SecretType && maps.EqualFunc(a.Data, b.Data, bytes.Equal) && slices.Equal(a.BinaryKeys, b.BinaryKeys)
}
