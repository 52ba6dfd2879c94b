// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"

	apiobjects "github.com/managedworkload/managedworkload/api/objects"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// Missing returns what keeps a pod's containers from being created: objects, keys and
// tokens that its volumes and variables refer to and that are neither there nor optional.
// What is optional and not known is missing too: there may be one. Tokens that are not
// there are fetched meanwhile. Pull secrets are not looked at: a pull tells.
func (s *Source) Missing(ctx context.Context, pod *corev1.Pod) []plan.Missing {
	l := &lookup{ctx: ctx, source: s, pod: pod}
	for i := range pod.Spec.Volumes {
		l.volume(&pod.Spec.Volumes[i])
	}
	for c := range podspec.InitAndMain(pod) {
		l.container(c)
	}
	return l.missing
}

// lookup gathers what is missing.
type lookup struct {
	ctx     context.Context
	source  *Source
	pod     *corev1.Pod
	missing []plan.Missing
}

func (l *lookup) add(container, prefix string, err error) {
	if err != nil {
		reason := plan.Reason{Reason: v1alpha1.ReasonObjectsMissing, Message: prefix + err.Error()}
		l.missing = append(l.missing, plan.Missing{Container: container, Reason: reason})
	}
}

// volume looks for what a volume is made of. (kubelet volume/configmap, volume/secret,
// volume/projected)
func (l *lookup) volume(v *corev1.Volume) {
	prefix := fmt.Sprintf("volume %q: ", v.Name)
	if c := v.ConfigMap; c != nil {
		l.add("", prefix, l.configMap(c.Name, c.Items, c.Optional))
	}
	if s := v.Secret; s != nil {
		l.add("", prefix, l.secret(s.SecretName, s.Items, s.Optional))
	}
	if v.Projected == nil {
		return
	}
	for _, part := range v.Projected.Sources {
		if c := part.ConfigMap; c != nil {
			l.add("", prefix, l.configMap(c.Name, c.Items, c.Optional))
		}
		if s := part.Secret; s != nil {
			l.add("", prefix, l.secret(s.Name, s.Items, s.Optional))
		}
		if asked := part.ServiceAccountToken; asked != nil {
			l.add("", prefix, l.source.Prefetch(l.ctx, l.pod, tokenOf(asked)))
		}
	}
}

// tokenOf is the token that a volume asks for.
func tokenOf(asked *corev1.ServiceAccountTokenProjection) apiobjects.Token {
	return apiobjects.Token{
		Audience: asked.Audience, ExpirationSeconds: ptr.Deref(asked.ExpirationSeconds, apiobjects.DefaultExpirationSeconds),
	}
}

func (l *lookup) configMap(name string, items []corev1.KeyToPath, optional *bool) error {
	c, err := l.source.ConfigMap(l.pod.Namespace, name)
	if old := l.source.upToDate(l.pod.Namespace, apiobjects.Ref{Kind: apiobjects.ConfigMap, Name: name}); old != nil {
		return old
	}
	if err != nil {
		return unless(optional, err)
	}
	for _, item := range items {
		_, text := c.Data[item.Key]
		if _, binary := c.BinaryData[item.Key]; !text && !binary && !ptr.Deref(optional, false) {
			return fmt.Errorf("references non-existent config key: %s", item.Key)
		}
	}
	return nil
}

func (l *lookup) secret(name string, items []corev1.KeyToPath, optional *bool) error {
	s, err := l.source.Secret(l.pod.Namespace, name)
	if old := l.source.upToDate(l.pod.Namespace, apiobjects.Ref{Kind: apiobjects.Secret, Name: name}); old != nil {
		return old
	}
	if err != nil {
		return unless(optional, err)
	}
	for _, item := range items {
		if _, ok := s.Data[item.Key]; !ok && !ptr.Deref(optional, false) {
			return fmt.Errorf("references non-existent secret key: %s", item.Key)
		}
	}
	return nil
}

// unless leaves an error out that says that there is no object where it may be missing.
func unless(optional *bool, err error) error {
	if apierrors.IsNotFound(err) && ptr.Deref(optional, false) {
		return nil
	}
	return err
}

// container looks for what a container's variables are made of. (kubelet
// kubelet_pods.go:makeEnvironmentVariables)
func (l *lookup) container(c *corev1.Container) {
	for _, from := range c.EnvFrom {
		if ref := from.ConfigMapRef; ref != nil {
			l.add(c.Name, "", l.configMap(ref.Name, nil, ref.Optional))
		}
		if ref := from.SecretRef; ref != nil {
			l.add(c.Name, "", l.secret(ref.Name, nil, ref.Optional))
		}
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil {
			l.variable(c.Name, from)
		}
	}
}

func (l *lookup) variable(container string, from *corev1.EnvVarSource) {
	if ref := from.ConfigMapKeyRef; ref != nil {
		err := l.configMap(ref.Name, nil, ref.Optional)
		if c, failed := l.source.ConfigMap(l.pod.Namespace, ref.Name); err == nil && failed == nil {
			_, ok := c.Data[ref.Key]
			err = missingKey("ConfigMap", l.pod.Namespace, ref.Name, ref.Key, ok, ref.Optional)
		}
		l.add(container, "", err)
	}
	if ref := from.SecretKeyRef; ref != nil {
		err := l.secret(ref.Name, nil, ref.Optional)
		if s, failed := l.source.Secret(l.pod.Namespace, ref.Name); err == nil && failed == nil {
			_, ok := s.Data[ref.Key]
			err = missingKey("Secret", l.pod.Namespace, ref.Name, ref.Key, ok, ref.Optional)
		}
		l.add(container, "", err)
	}
}

func missingKey(kind, namespace, name, key string, found bool, optional *bool) error {
	if found || ptr.Deref(optional, false) {
		return nil
	}
	return fmt.Errorf("couldn't find key %v in %v %v/%v", key, kind, namespace, name)
}
