// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Kind is the kind of an object that a template refers to.
type Kind string

// The kinds of objects that containers get, and of the accounts of their tokens, of which a node
// gets the UID and nothing else.
const (
	ConfigMap      Kind = "ConfigMap"
	Secret         Kind = "Secret"
	ServiceAccount Kind = "ServiceAccount"
)

// RootCA is the ConfigMap with the certificate of the API server, which
// kube-controller-manager keeps in each namespace. (kube-controller-manager
// pkg/controller/certificates/rootcacertpublisher)
const RootCA = "kube-root-ca.crt"

// Ref is an object that a template refers to, in the namespace of its workload.
type Ref struct {
	Kind Kind
	Name string
}

// Compare orders references by kind and name.
func Compare(a, b Ref) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
}

// Key is an object in its namespace.
type Key struct {
	Namespace string
	Ref
}

// CompareKeys orders keys by namespace, kind and name.
func CompareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), Compare(a.Ref, b.Ref))
}

// Of lists what a spec refers to, each once and in order: volumes, variables of all
// containers, and imagePullSecrets. What is optional is among them.
func Of(spec *corev1.PodSpec) []Ref {
	found := map[Ref]bool{}
	visit(spec, func(kind Kind, name string, _ *bool) { found[Ref{kind, name}] = true })
	return slices.SortedFunc(maps.Keys(found), Compare)
}

// Required lists those without which containers do not start: no reference to them is
// optional. Images may be public, so imagePullSecrets are not among them.
func Required(spec *corev1.PodSpec) []Ref {
	found := map[Ref]bool{}
	visit(&corev1.PodSpec{Volumes: spec.Volumes, InitContainers: spec.InitContainers, Containers: spec.Containers}, func(kind Kind, name string, optional *bool) {
		if optional == nil || !*optional {
			found[Ref{kind, name}] = true
		}
	})
	return slices.SortedFunc(maps.Keys(found), Compare)
}

// adder notes a reference, and whether it is optional.
type adder func(kind Kind, name string, optional *bool)

func visit(spec *corev1.PodSpec, note adder) {
	add := func(kind Kind, name string, optional *bool) {
		if name != "" {
			note(kind, name, optional)
		}
	}
	for i := range spec.Volumes {
		ofVolume(&spec.Volumes[i].VolumeSource, add)
	}
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			ofContainer(&list[i], add)
		}
	}
	for _, secret := range spec.ImagePullSecrets {
		add(Secret, secret.Name, nil)
	}
}

func ofVolume(source *corev1.VolumeSource, add adder) {
	if source.ConfigMap != nil {
		add(ConfigMap, source.ConfigMap.Name, source.ConfigMap.Optional)
	}
	if source.Secret != nil {
		add(Secret, source.Secret.SecretName, source.Secret.Optional)
	}
	if source.Projected == nil {
		return
	}
	for _, part := range source.Projected.Sources {
		if part.ConfigMap != nil {
			add(ConfigMap, part.ConfigMap.Name, part.ConfigMap.Optional)
		}
		if part.Secret != nil {
			add(Secret, part.Secret.Name, part.Secret.Optional)
		}
	}
}

func ofContainer(c *corev1.Container, add adder) {
	for _, from := range c.EnvFrom {
		if from.ConfigMapRef != nil {
			add(ConfigMap, from.ConfigMapRef.Name, from.ConfigMapRef.Optional)
		}
		if from.SecretRef != nil {
			add(Secret, from.SecretRef.Name, from.SecretRef.Optional)
		}
	}
	for _, variable := range c.Env {
		if variable.ValueFrom == nil {
			continue
		}
		if ref := variable.ValueFrom.ConfigMapKeyRef; ref != nil {
			add(ConfigMap, ref.Name, ref.Optional)
		}
		if ref := variable.ValueFrom.SecretKeyRef; ref != nil {
			add(Secret, ref.Name, ref.Optional)
		}
	}
}

// Token is a service account token that a template asks for. An empty Audience is the API
// server's own.
type Token struct {
	Audience          string
	ExpirationSeconds int64
}

// AccountTokens are tokens of a service account.
type AccountTokens struct {
	Account string
	Tokens  []Token
}

// Tokens lists the tokens that the projected volumes of a spec ask for, each once and in
// order.
func Tokens(spec *corev1.PodSpec) []Token {
	var tokens []Token
	for i := range spec.Volumes {
		if spec.Volumes[i].Projected == nil {
			continue
		}
		for _, part := range spec.Volumes[i].Projected.Sources {
			if asked := part.ServiceAccountToken; asked != nil {
				tokens = append(tokens, TokenOf(asked))
			}
		}
	}
	slices.SortFunc(tokens, func(a, b Token) int {
		return cmp.Or(cmp.Compare(a.Audience, b.Audience), cmp.Compare(a.ExpirationSeconds, b.ExpirationSeconds))
	})
	return slices.Compact(tokens)
}

// AccountOf returns the service account of the tokens that a spec asks for; found is false where it
// asks for none.
func AccountOf(spec *corev1.PodSpec) (account Ref, found bool) {
	return AccountRef(spec.ServiceAccountName), len(Tokens(spec)) > 0
}

// AccountRef is the reference to a service account by a name that a template may leave out.
func AccountRef(name string) Ref { return Ref{ServiceAccount, cmp.Or(name, "default")} }

// TokenOf is the token that a source of a projected volume asks for.
func TokenOf(source *corev1.ServiceAccountTokenProjection) Token {
	return Token{source.Audience, seconds(source.ExpirationSeconds)}
}

// DefaultExpirationSeconds is how long a token is asked for where the template does not say.
// (kubernetes pkg/apis/core/v1/defaults.go)
const DefaultExpirationSeconds = 3600

func seconds(asked *int64) int64 {
	if asked == nil {
		return DefaultExpirationSeconds
	}
	return *asked
}
