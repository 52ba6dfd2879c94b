// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

func userTemplate(edits ...func(*corev1.PodTemplateSpec)) *corev1.PodTemplateSpec {
	t := &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}},
		Spec: corev1.PodSpec{
			Containers:  []corev1.Container{{Name: "c", Image: "image:1"}},
			Tolerations: []corev1.Toleration{{Key: "mine", Operator: corev1.TolerationOpExists}},
		},
	}
	for _, edit := range edits {
		edit(t)
	}
	template.SetDefaults(t)
	return t
}

// Before new nodes get an admitted template it is asked about again, once for many nodes,
// and again when the namespace's PodSecurity labels change. The answer never changes it.
func TestAgain(t *testing.T) {
	asked, refuse, inject, away := 0, false, false, false
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}
	c := fake.NewClientBuilder().WithObjects(ns).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			asked++
			if away {
				return apierrors.NewInternalError(errors.New("no answer"))
			}
			if refuse {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, o.GetName(), errors.New("violates PodSecurity"))
			}
			if inject {
				o.SetAnnotations(map[string]string{"injected": "now"})
			}
			return nil
		},
	}).Build()
	j := NewJudge(c, Options{})
	mw := &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "u"}}
	now := time.Now()
	again := func(after time.Duration, spreads bool, wantAsked int, want Answer, recheck time.Duration) {
		t.Helper()
		now, asked = now.Add(after), 0
		if recheck != 0 {
			want.Recheck = now.Add(recheck)
		}
		got, err := j.Again(t.Context(), mw, userTemplate(), spreads, now)
		if err != nil || asked != wantAsked || got != want {
			t.Errorf("asked %d times, want %d, %+v, error %v, want %+v", asked, wantAsked, got, err, want)
		}
	}
	fine, refused, changed := Answer{}, Answer{Refused: `pods "web" is forbidden: violates PodSecurity`}, Answer{Changed: true}
	const spreads = true
	const never = time.Duration(0)
	again(0, !spreads, 1, fine, never) // this manager knows nothing yet
	again(time.Hour, !spreads, 0, fine, never)
	again(0, spreads, 1, fine, never)
	again(time.Second, spreads, 0, fine, never)
	again(goodFor, spreads, 1, fine, never)
	ns.Labels = map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}
	if err := c.Update(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	again(time.Second, !spreads, 1, fine, goodFor) // PodSecurity may not know the labels yet
	refuse = true
	again(goodFor, !spreads, 1, refused, lastRecheck)
	again(time.Second, spreads, 0, refused, lastRecheck-time.Second)
	again(goodFor, spreads, 1, refused, lastRecheck)

	// Without an answer the one before holds, and what no node waits for is not asked again at
	// once.
	away = true
	again(lastRecheck, !spreads, 1, refused, silence)
	again(time.Second, !spreads, 0, refused, silence-time.Second)
	asked = 0
	if got, err := j.Again(t.Context(), mw, userTemplate(), spreads, now); err == nil || got.Refused != refused.Refused || asked != 1 {
		t.Errorf("asked %d times, %+v, error %v, want an error and the answer of before", asked, got, err)
	}
	away, refuse, inject = false, false, true
	again(silence, !spreads, 1, changed, changedRecheck)
	again(time.Minute, !spreads, 0, changed, changedRecheck-time.Minute)
	inject = false
	again(changedRecheck, !spreads, 1, fine, never)

	// What was admitted just now is not asked about again.
	other := mw.DeepCopy()
	other.Name, other.Spec.Template = "other", *userTemplate()
	v, err := j.Verdict(t.Context(), Question{Workload: other, Template: &other.Spec.Template, Now: now})
	if err != nil || !v.Accepted {
		t.Fatalf("verdict %+v, error %v", v, err)
	}
	asked = 0
	if answer, err := j.Again(t.Context(), other, v.Admitted, spreads, now); err != nil || answer != fine || asked != 0 {
		t.Errorf("asked %d times, %+v, error %v", asked, answer, err)
	}
}

// A namespace whose admission fails is left alone for a while; others are asked about, and that one again later.
func TestOneNamespaceDoesNotSilenceOthers(t *testing.T) {
	asked := map[string]int{}
	c := fake.NewClientBuilder().WithObjects(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "fails"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}},
	).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			asked[o.GetNamespace()]++
			if o.GetNamespace() == "fails" {
				return apierrors.NewInternalError(errors.New("failed calling webhook"))
			}
			return nil
		},
	}).Build()
	j, begin := NewJudge(c, Options{}), time.Now()
	for _, tt := range []struct {
		after     time.Duration
		namespace string
		name      string
		wantAsked int
	}{
		{0, "fails", "web", 1},
		{time.Second, "ns", "web", 1},
		{2 * time.Second, "fails", "other", 1},
		{silence, "fails", "other", 2},
		{silence + time.Second, "ns", "other", 2},
		{silence + 2*time.Second, "fails", "web", 2},
	} {
		mw := &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: tt.namespace, Name: tt.name, UID: "u"}}
		if _, err := j.Again(t.Context(), mw, userTemplate(), false, begin.Add(tt.after)); err != nil || asked[tt.namespace] != tt.wantAsked {
			t.Errorf("%s/%s after %s: asked %d times, want %d, error %v", tt.namespace, tt.name, tt.after, asked[tt.namespace], tt.wantAsked, err)
		}
	}
}

// tokenVolume is what admission of service accounts gives a Pod.
var tokenVolume = corev1.Volume{Name: "kube-api-access-x7k2p", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
	Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: new(int64(3607))}}},
}}}

// A template that was admitted where no admission looked at service accounts is not another one
// for what its ServiceAccount gives; one that has its token is not another one for the name of
// its volume.
func TestAgainWithAServiceAccount(t *testing.T) {
	pullSecrets := []corev1.LocalObjectReference{{Name: "of-the-account"}}
	accounts := func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
		spec := &o.(*corev1.Pod).Spec
		spec.ServiceAccountName = cmp.Or(spec.ServiceAccountName, "default")
		spec.DeprecatedServiceAccount = spec.ServiceAccountName
		if automount := spec.AutomountServiceAccountToken; (automount == nil || *automount) && len(spec.Volumes) == 0 {
			spec.Volumes = append(spec.Volumes, tokenVolume)
		}
		if len(spec.ImagePullSecrets) == 0 {
			spec.ImagePullSecrets = pullSecrets
		}
		return nil
	}
	// An API server without that admission fills in the other name of an account only.
	none := func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
		spec := &o.(*corev1.Pod).Spec
		spec.DeprecatedServiceAccount = spec.ServiceAccountName
		return nil
	}
	account := func(t *corev1.PodTemplateSpec, automount bool) {
		t.Spec.ServiceAccountName, t.Spec.DeprecatedServiceAccount, t.Spec.AutomountServiceAccountToken = "default", "default", &automount
	}
	tests := map[string]struct {
		before func(*corev1.PodTemplateSpec)
		none   bool
		want   bool
	}{
		"admitted without": {before: func(*corev1.PodTemplateSpec) {}},
		"admitted without, with an account and without a token": {before: func(t *corev1.PodTemplateSpec) {
			t.Spec.ServiceAccountName, t.Spec.AutomountServiceAccountToken = "mine", new(false)
		}},
		"with a token": {before: func(t *corev1.PodTemplateSpec) {
			account(t, true)
			t.Spec.ImagePullSecrets, t.Spec.Volumes = pullSecrets, []corev1.Volume{tokenVolume}
			t.Spec.Volumes[0].Name = "kube-api-access"
		}},
		"without the pull secrets that the account has now": {before: func(t *corev1.PodTemplateSpec) { account(t, false) }, want: true},
		"no admission of accounts":                          {none: true, before: func(*corev1.PodTemplateSpec) {}},
		"no admission of accounts, with one":                {none: true, before: func(t *corev1.PodTemplateSpec) { account(t, false) }},
		"no admission of accounts, with one of its names": {none: true, before: func(t *corev1.PodTemplateSpec) {
			t.Spec.ServiceAccountName = "mine"
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			create := accounts
			if tt.none {
				create = none
			}
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}
			c := fake.NewClientBuilder().WithObjects(ns).WithInterceptorFuncs(interceptor.Funcs{Create: create}).Build()
			mw := &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "u"}}
			answer, err := NewJudge(c, Options{}).Again(t.Context(), mw, userTemplate(tt.before), true, time.Now())
			if err != nil || answer.Changed != tt.want {
				t.Errorf("%+v, error %v, want changed %v", answer, err, tt.want)
			}
		})
	}
}

// The number of a priority class stays as it was when the template was admitted, as a Pod's does: a
// class that was made again with another number, or that is the default since, is no
// reason to refuse a node or to say that the template changes.
func TestAgainWithAPriority(t *testing.T) {
	admit := func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
		pod, number := o.(*corev1.Pod), int32(2000)
		if given := pod.Spec.Priority; given != nil && *given != number { // kubernetes plugin/pkg/admission/priority
			return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, pod.Name, errors.New("the integer value of priority must not be provided"))
		}
		pod.Spec.Priority = &number
		return nil
	}
	for name, number := range map[string]*int32{"of no class": nil, "of the class as it was": new(int32(1000)), "of the class": new(int32(2000))} {
		t.Run(name, func(t *testing.T) {
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}
			c := fake.NewClientBuilder().WithObjects(ns).WithInterceptorFuncs(interceptor.Funcs{Create: admit}).Build()
			mw := &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "u"}}
			before := userTemplate(func(t *corev1.PodTemplateSpec) { t.Spec.PriorityClassName, t.Spec.Priority = "important", number })
			answer, err := NewJudge(c, Options{}).Again(t.Context(), mw, before, true, time.Now())
			if err != nil || answer != (Answer{}) {
				t.Errorf("%+v, error %v", answer, err)
			}
		})
	}
}

// Accepted says what has no effect, and that no token is mounted where the template is
// silent.
func TestAcceptedSaysWhatHasNoEffect(t *testing.T) {
	tests := map[string]struct {
		options Options
		edit    func(*corev1.PodSpec)
		inject  func(*corev1.PodSpec)
		want    string
	}{
		"silent about the token": {want: "the template is accepted; no service account token is mounted"},
		"silent about the token, without the component": {
			options: Options{NoTokens: true},
			want:    "the template is accepted; no service account token is mounted and image pull secrets of the ServiceAccount are not used: the component objects is not installed",
		},
		"with a token": {
			inject: func(s *corev1.PodSpec) { s.ServiceAccountName = "default"; s.Volumes = append(s.Volumes, tokenVolume) },
			want:   "the template is accepted",
		},
		"a token, without the component": {
			options: Options{NoTokens: true},
			edit:    func(s *corev1.PodSpec) { s.Volumes = []corev1.Volume{tokenVolume} },
			want:    "spec.template.spec.volumes[0].projected.sources[0].serviceAccountToken: Forbidden: the component objects is not installed, so that nodes get no ConfigMaps, Secrets and tokens; an administrator installs it with config/components/objects",
		},
		"an injected token, without the component": {
			options: Options{NoTokens: true},
			inject:  func(s *corev1.PodSpec) { s.Volumes = append(s.Volumes, tokenVolume) },
			want:    "injected by admission: spec.template.spec.volumes[0].projected.sources[0].serviceAccountToken: Forbidden: the component objects is not installed, so that nodes get no ConfigMaps, Secrets and tokens; an administrator installs it with config/components/objects",
		},
		"without a token": {edit: func(s *corev1.PodSpec) { s.AutomountServiceAccountToken = new(false) }, want: "the template is accepted"},
		"ignored": {
			edit: func(s *corev1.PodSpec) { s.SchedulerName = "other" },
			want: "the template is accepted; no service account token is mounted; ignored: spec.template.spec.schedulerName",
		},
		"injected": {
			inject: func(s *corev1.PodSpec) { s.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1}} },
			want:   "the template is accepted; no service account token is mounted; injected by admission and ignored: spec.template.spec.topologySpreadConstraints",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}
			c := fake.NewClientBuilder().WithObjects(ns).WithInterceptorFuncs(interceptor.Funcs{
				Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
					if tt.inject != nil {
						tt.inject(&o.(*corev1.Pod).Spec)
					}
					return nil
				},
			}).Build()
			mw := &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}
			mw.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "image:1"}}
			if tt.edit != nil {
				tt.edit(&mw.Spec.Template.Spec)
			}
			withDefaults := mw.Spec.Template.DeepCopy()
			template.SetDefaults(withDefaults)
			v, err := NewJudge(c, tt.options).Verdict(t.Context(), Question{Workload: mw, Template: withDefaults, Now: time.Now()})
			if err != nil || v.Message != tt.want {
				t.Errorf("%q, error %v, want %q", v.Message, err, tt.want)
			}
		})
	}
}
