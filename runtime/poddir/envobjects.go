// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package poddir

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
)

// Objects are what environment variables come from. That there is no object of a name is
// an error of which apierrors.IsNotFound holds; any other means that it is not known. What
// is returned is not changed.
type Objects interface {
	ConfigMap(namespace, name string) (*corev1.ConfigMap, error)
	Secret(namespace, name string) (*corev1.Secret, error)
}

// noObjects has none: nothing was ever received.
type noObjects struct{}

func (noObjects) ConfigMap(_, name string) (*corev1.ConfigMap, error) {
	return nil, fmt.Errorf("configmap %q: no source of ConfigMaps is defined", name)
}

func (noObjects) Secret(_, name string) (*corev1.Secret, error) {
	return nil, fmt.Errorf("secret %q: no source of Secrets is defined", name)
}

// envFrom sets all of an object as variables, sorted by key. The kubelet leaves out no
// name: what is no identifier is for the program to judge.
func (m *Manager) envFrom(pod *corev1.Pod, from *corev1.EnvFromSource, vars *variables) error {
	var data map[string]string
	var err error
	var optional *bool
	switch {
	case from.ConfigMapRef != nil:
		optional = from.ConfigMapRef.Optional
		data, err = m.configMapData(pod.Namespace, from.ConfigMapRef.Name)
	case from.SecretRef != nil:
		optional = from.SecretRef.Optional
		data, err = m.secretData(pod.Namespace, from.SecretRef.Name)
	}
	if absent(err, optional) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(data)) {
		vars.set(from.Prefix+key, data[key])
	}
	return nil
}

// absent is whether an error says that there is no object where it may be missing. One
// that is not known may be there.
func absent(err error, optional *bool) bool {
	return apierrors.IsNotFound(err) && ptr.Deref(optional, false)
}

func (m *Manager) configMapValue(namespace string, ref *corev1.ConfigMapKeySelector) (string, bool, error) {
	c, err := m.config.Objects.ConfigMap(namespace, ref.Name)
	if err != nil {
		return "", false, unlessAbsent(err, ref.Optional)
	}
	value, ok := c.Data[ref.Key]
	if !ok {
		return "", false, missingKey("ConfigMap", namespace, ref.Name, ref.Key, ref.Optional)
	}
	return value, true, checkText("ConfigMap", namespace, ref.Name, ref.Key, value)
}

func (m *Manager) secretValue(namespace string, ref *corev1.SecretKeySelector) (string, bool, error) {
	s, err := m.config.Objects.Secret(namespace, ref.Name)
	if err != nil {
		return "", false, unlessAbsent(err, ref.Optional)
	}
	data, ok := s.Data[ref.Key]
	if !ok {
		return "", false, missingKey("Secret", namespace, ref.Name, ref.Key, ref.Optional)
	}
	value := string(data)
	return value, true, checkText("Secret", namespace, ref.Name, ref.Key, value)
}

func unlessAbsent(err error, optional *bool) error {
	if absent(err, optional) {
		return nil
	}
	return err
}

func missingKey(kind, namespace, name, key string, optional *bool) error {
	if ptr.Deref(optional, false) {
		return nil
	}
	return fmt.Errorf("couldn't find key %v in %v %v/%v", key, kind, namespace, name)
}

func (m *Manager) configMapData(namespace, name string) (map[string]string, error) {
	c, err := m.config.Objects.ConfigMap(namespace, name)
	if err != nil {
		return nil, err
	}
	for key, value := range c.Data {
		if err := checkText("ConfigMap", namespace, name, key, value); err != nil {
			return nil, err
		}
	}
	return c.Data, nil
}

func (m *Manager) secretData(namespace, name string) (map[string]string, error) {
	s, err := m.config.Objects.Secret(namespace, name)
	if err != nil {
		return nil, err
	}
	data := make(map[string]string, len(s.Data))
	for key, value := range s.Data {
		data[key] = string(value)
		if err := checkText("Secret", namespace, name, key, data[key]); err != nil {
			return nil, err
		}
	}
	return data, nil
}

// checkText refuses what no variable can hold: a runtime's error about it would not say
// where it comes from, and may quote it.
func checkText(kind, namespace, name, key, value string) error {
	switch {
	case strings.ContainsRune(value, 0):
		return fmt.Errorf("key %v in %v %v/%v contains a NUL byte: it cannot be an environment variable", key, kind, namespace, name)
	case !utf8.ValidString(value):
		return fmt.Errorf("key %v in %v %v/%v is not UTF-8: it cannot be an environment variable", key, kind, namespace, name)
	}
	return nil
}
