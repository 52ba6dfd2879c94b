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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// grants are the accounts, by namespace/name, whose tokens the manager may make.
type grants struct {
	allowed map[string]bool
	err     error
}

func (g *grants) TokenRight(_ context.Context, namespace, account string) (string, error) {
	if g.err != nil || g.allowed[namespace+"/"+account] {
		return "", g.err
	}
	return "no tokens of " + account + "; run: kubectl x", nil
}

// A template whose containers would wait for a token is refused when it is applied, and in Accepted,
// with the command that grants it: also where only the ServiceAccount says that there is a token.
func TestTokensNeedAGrant(t *testing.T) {
	const silent = "spec.template.spec.automountServiceAccountToken: Forbidden: it is not set, so that containers get a token; " +
		"if they need none, set it to false; otherwise: no tokens of default; run: kubectl x"
	explicit := func(s *corev1.PodSpec) { s.ServiceAccountName, s.Volumes = "web", []corev1.Volume{tokenVolume} }
	tests := map[string]struct {
		edit    func(*corev1.PodSpec)
		allowed string
		options Options
		err     error
		want    string
	}{
		"silent about the token":                    {want: silent},
		"silent, with a grant":                      {allowed: "ns/default"},
		"silent, with a grant of another account":   {allowed: "ns/web", want: silent},
		"silent, with a grant of another namespace": {allowed: "other/default", want: silent},
		"without a token":                           {edit: func(s *corev1.PodSpec) { s.AutomountServiceAccountToken = new(false) }},
		"asks for one": {
			edit: func(s *corev1.PodSpec) { s.AutomountServiceAccountToken = new(true) },
			want: "spec.template.spec.automountServiceAccountToken: Forbidden: no tokens of default; run: kubectl x",
		},
		"asks for one in a volume": {
			edit: explicit,
			want: "spec.template.spec.volumes[0].projected.sources[0].serviceAccountToken: Forbidden: no tokens of web; run: kubectl x",
		},
		"asks for one in a volume, with a grant": {edit: explicit, allowed: "ns/web"},
		"without the component objects":          {options: Options{NoTokens: true}},
		"the API server does not answer":         {err: errors.New("the API server is away")},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}
			c := fake.NewClientBuilder().WithObjects(ns).WithInterceptorFuncs(interceptor.Funcs{Create: likeServiceAccounts}).Build()
			tt.options.Tokens = &grants{allowed: map[string]bool{tt.allowed: true}, err: tt.err}
			mw := &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}
			mw.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "image:1"}}
			if tt.edit != nil {
				tt.edit(&mw.Spec.Template.Spec)
			}
			judge := NewJudge(c, tt.options)
			review, err := judge.Review(t.Context(), mw)
			got := ""
			for _, cause := range review.Causes {
				got += cause.Field + ": " + cause.Message
			}
			if got != tt.want || (err != nil) != (tt.err != nil) {
				t.Errorf("at apply: %q, error %v, want %q", got, err, tt.want)
			}
			withDefaults := mw.Spec.Template.DeepCopy()
			template.SetDefaults(withDefaults)
			now := time.Now()
			v, err := judge.Verdict(t.Context(), Question{Workload: mw, Template: withDefaults, Now: now})
			if (err != nil) != (tt.err != nil) {
				t.Fatalf("error %v", err)
			}
			if tt.want != "" && (v.Accepted || v.Reason != v1alpha1.ReasonNoRight || v.Message != tt.want || !v.Recheck.After(now)) {
				t.Errorf("verdict %+v, want %q, to be looked at again", v, tt.want)
			}
			if tt.want == "" && tt.err == nil && !v.Accepted {
				t.Errorf("verdict %+v", v)
			}
		})
	}
}

// likeServiceAccounts is what admission of service accounts makes of a Pod.
func likeServiceAccounts(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
	spec := &o.(*corev1.Pod).Spec
	spec.ServiceAccountName = cmp.Or(spec.ServiceAccountName, "default")
	if automount := spec.AutomountServiceAccountToken; (automount == nil || *automount) && len(spec.Volumes) == 0 {
		spec.Volumes = append(spec.Volumes, tokenVolume)
	}
	return nil
}
