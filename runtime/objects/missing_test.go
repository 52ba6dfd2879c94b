// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/subresources/v1alpha1"
)

// missingOf are what is missing of a spec, as "container: message".
func missingOf(t *testing.T, s *Source, spec corev1.PodSpec) []string {
	t.Helper()
	var lines []string
	for _, m := range s.Missing(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", UID: "1"}, Spec: spec}) {
		if m.Reason.Reason != "ObjectsMissing" {
			t.Errorf("reason %s", m.Reason.Reason)
		}
		lines = append(lines, m.Container+"| "+m.Reason.Message)
	}
	return lines
}

func local(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }

func TestWhatAPodLacks(t *testing.T) {
	s := &Source{Store: NewStore(nil)}
	apply(t, s.Store,
		sent("ConfigMap", "c", func(o *v1alpha1.NodeObject) { o.Data["bin"] = []byte{0xff} }), sent("Secret", "s", nil),
		sent("ConfigMap", "none", in(v1alpha1.ObjectNotFound, "")), sent("Secret", "none", in(v1alpha1.ObjectNotFound, "")),
		sent("Secret", "locked", in(v1alpha1.ObjectForbidden, "kubectl create rolebinding")))
	yes := true
	volume := func(source corev1.VolumeSource) corev1.PodSpec {
		return corev1.PodSpec{Volumes: []corev1.Volume{{Name: "v", VolumeSource: source}}}
	}
	config := func(name string, optional *bool, keys ...string) *corev1.ConfigMapVolumeSource {
		source := &corev1.ConfigMapVolumeSource{LocalObjectReference: local(name), Optional: optional}
		for _, key := range keys {
			source.Items = append(source.Items, corev1.KeyToPath{Key: key})
		}
		return source
	}
	container := func(c corev1.Container) corev1.PodSpec {
		c.Name = "c"
		return corev1.PodSpec{InitContainers: []corev1.Container{c}}
	}
	env := func(source corev1.EnvVarSource) corev1.PodSpec {
		return container(corev1.Container{Env: []corev1.EnvVar{{Name: "X", ValueFrom: &source}}})
	}
	from := func(source corev1.EnvFromSource) corev1.PodSpec {
		return container(corev1.Container{EnvFrom: []corev1.EnvFromSource{source}})
	}
	for name, tt := range map[string]struct {
		spec corev1.PodSpec
		want []string
	}{
		"nothing":            {volume(corev1.VolumeSource{ConfigMap: config("c", nil, "key", "bin")}), nil},
		"a ConfigMap":        {volume(corev1.VolumeSource{ConfigMap: config("none", nil)}), []string{`| volume "v": configmap "none" not found`}},
		"one that may lack":  {volume(corev1.VolumeSource{ConfigMap: config("none", &yes)}), nil},
		"one not known":      {volume(corev1.VolumeSource{ConfigMap: config("later", &yes)}), []string{`| volume "v": configmap "later" has not been received from the manager yet`}},
		"a key":              {volume(corev1.VolumeSource{ConfigMap: config("c", nil, "k")}), []string{`| volume "v": references non-existent config key: k`}},
		"a key that may":     {volume(corev1.VolumeSource{ConfigMap: config("c", &yes, "k")}), nil},
		"a Secret's key":     {volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s", Items: []corev1.KeyToPath{{Key: "k"}}}}), []string{`| volume "v": references non-existent secret key: k`}},
		"a forbidden Secret": {volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "locked", Optional: &yes}}), []string{`| volume "v": kubectl create rolebinding`}},
		"projected": {volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: local("none")}},
			{Secret: &corev1.SecretProjection{LocalObjectReference: local("none")}}, {Secret: &corev1.SecretProjection{LocalObjectReference: local("s")}},
		}}}), []string{`| volume "v": configmap "none" not found`, `| volume "v": secret "none" not found`}},
		"a variable": {env(corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: local("none"), Key: "k"}}),
			[]string{`c| configmap "none" not found`}},
		"a variable's key, binary": {env(corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: local("c"), Key: "bin"}}),
			[]string{`c| couldn't find key bin in ConfigMap ns/c`}},
		"a variable's key that may lack": {env(corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: local("s"), Key: "k", Optional: &yes}}), nil},
		"a variable of a Secret": {env(corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: local("s"), Key: "k"}}),
			[]string{`c| couldn't find key k in Secret ns/s`}},
		"all of a ConfigMap": {from(corev1.EnvFromSource{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: local("none")}}), []string{`c| configmap "none" not found`}},
		"all of a Secret":    {from(corev1.EnvFromSource{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: local("none")}}), []string{`c| secret "none" not found`}},
		"a pull secret":      {corev1.PodSpec{ImagePullSecrets: []corev1.LocalObjectReference{local("none")}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, missingOf(t, s, tt.spec)); diff != "" {
				t.Errorf("missing (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAMissingTokenIsFetched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &manager{lifetime: time.Hour}
		s := &Source{Store: NewStore(nil), Tokens: m.tokens()}
		spec := corev1.PodSpec{Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: "api"}}},
		}}}}}
		if diff := cmp.Diff([]string{`| volume "v": token has not been received from the manager yet`}, missingOf(t, s, spec)); diff != "" {
			t.Errorf("missing (-want +got):\n%s", diff)
		}
		synctest.Wait()
		if got := missingOf(t, s, spec); got != nil {
			t.Errorf("missing: %q", got)
		}
		// The start gets the same one.
		wantToken(t, s.Tokens, pod("1", ""), ask, "api-1")
	})
}
