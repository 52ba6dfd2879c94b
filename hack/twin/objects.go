// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/objects"
	"github.com/managedworkload/managedworkload/hack/localstack"
)

// Objects that templates refer to.
const (
	settings    = "settings"    // a ConfigMap
	immutable   = "constants"   // a ConfigMap
	credentials = "credentials" // a Secret
	missing     = "missing"     // of either kind; there is none
	reader      = "reader"      // a service account that may list ConfigMaps

	// ownObject stands in a template for a ConfigMap and a Secret that one side of one
	// pair has for itself, since it makes, changes or deletes them.
	ownObject = "own-object"
)

var settingsData = map[string]string{
	"plain": "a value\n", "empty": "", "nested.conf": "port: 80\nhost: \"x\"\n", "UPPER_1": "$(plain) $x '\"",
	"long": strings.Repeat("0123456789abcdef", 500), "unicode": "größer als ✓",
}

var credentialsData = map[string][]byte{
	"user": []byte("admin"), "password": []byte("correct horse\n"), "tls.key": []byte("-----BEGIN KEY-----\nnone\n-----END KEY-----\n"),
}

// prepareNamespace makes the namespace and what templates refer to, and gives the manager the
// rights that docs/objects.md describes.
func prepareNamespace(ctx context.Context, kube client.Client) error {
	in := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: namespace, Name: name} }
	clusterRole := func(name string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
	}
	account := func(namespace, name string) []rbacv1.Subject {
		return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}}
	}
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		localstack.Grant(namespace, localstack.ObjectsRole), localstack.Grant(namespace, localstack.TokensRole),
		&corev1.ServiceAccount{ObjectMeta: in(reader)},
		&rbacv1.RoleBinding{ObjectMeta: in(reader), RoleRef: clusterRole("view"), Subjects: account(namespace, reader)},
		&corev1.ConfigMap{ObjectMeta: in(settings), Data: settingsData, BinaryData: map[string][]byte{"binary": {0, 1, 0xfe, 0xff}}},
		&corev1.ConfigMap{ObjectMeta: in(immutable), Data: map[string]string{"pi": "3.14"}, Immutable: ptr.To(true)},
		&corev1.Secret{ObjectMeta: in(credentials), Data: credentialsData},
	} {
		if err := kube.Create(ctx, object); err != nil {
			return fmt.Errorf("make what templates refer to: %w", err)
		}
	}
	// kube-controller-manager makes these. A Pod is refused before there is the first.
	for _, object := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: in("default")}, &corev1.ConfigMap{ObjectMeta: in(objects.RootCA)},
	} {
		err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
			return kube.Get(ctx, client.ObjectKeyFromObject(object), object) == nil, nil
		})
		if err != nil {
			return fmt.Errorf("wait for %T %s: %w", object, object.GetName(), err)
		}
	}
	return nil
}

// own is the name of the objects that one side of a pair has for itself.
func (p *pairing) own() string { return p.name + "-own-" + p.side.name() }

// ownSpec is the scenario's template with its own objects in it.
func (p *pairing) ownSpec() (*corev1.PodSpec, error) {
	data, err := json.Marshal(p.scenario.spec)
	if err != nil {
		return nil, err
	}
	spec := &corev1.PodSpec{}
	return spec, json.Unmarshal([]byte(strings.ReplaceAll(string(data), `"`+ownObject+`"`, `"`+p.own()+`"`)), spec)
}

// makeOwn makes or changes the ConfigMap and the Secret of a side.
func makeOwn(data map[string]string) func(context.Context, *pairing) error {
	return func(ctx context.Context, p *pairing) error {
		for _, object := range p.owned(data) {
			err := p.kube.Create(ctx, object)
			if client.IgnoreAlreadyExists(err) != nil {
				return err
			}
			if err != nil {
				if err := p.kube.Update(ctx, object); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// deleteOwn deletes them, and waits until both nodes have the news.
func deleteOwn(ctx context.Context, p *pairing) error {
	for _, object := range p.owned(nil) {
		if err := p.kube.Delete(ctx, object); err != nil {
			return err
		}
	}
	return pause(ctx, 2*time.Second)
}

func (p *pairing) owned(data map[string]string) []client.Object {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: p.own()}
	return []client.Object{&corev1.ConfigMap{ObjectMeta: meta, Data: data}, &corev1.Secret{ObjectMeta: meta, StringData: data}}
}

// afterEvent does something once the node's agent has sent an event with these words.
func afterEvent(words string, do func(context.Context, *pairing) error) func(context.Context, *pairing) error {
	return func(ctx context.Context, p *pairing) error {
		err := wait.PollUntilContextTimeout(ctx, 250*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
			list := &corev1.EventList{}
			err := p.kube.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{"involvedObject.uid": p.uid()})
			return slices.ContainsFunc(list.Items, func(e corev1.Event) bool { return strings.Contains(e.Message, words) }), err
		})
		if err != nil {
			return fmt.Errorf("wait for an event with %q: %w", words, err)
		}
		return do(ctx, p)
	}
}

// both does one thing after the other.
func both(first, second func(context.Context, *pairing) error) func(context.Context, *pairing) error {
	return func(ctx context.Context, p *pairing) error {
		if err := first(ctx, p); err != nil {
			return err
		}
		return second(ctx, p)
	}
}
