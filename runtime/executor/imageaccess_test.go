// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/runtime/images"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// privateRegistry is a runtime that pulls from a registry with one user, and the Secrets of
// its pods.
type privateRegistry struct {
	*fakeRuntime
	user string
}

func (r privateRegistry) PullImage(ctx context.Context, image string, pod *corev1.Pod, login *images.Login) (string, error) {
	if login == nil || login.Username != r.user {
		return "", status.Error(codes.Unknown, "denied")
	}
	return r.fakeRuntime.PullImage(ctx, image, pod, login)
}

func (r privateRegistry) Secret(_, name string) (*corev1.Secret, error) {
	if name == "gone" {
		return nil, apierrors.NewNotFound(corev1.Resource("secrets"), name)
	}
	s := &corev1.Secret{Type: corev1.SecretTypeDockercfg}
	s.Name, s.UID = name, types.UID(name)
	s.Data = map[string][]byte{corev1.DockerConfigKey: []byte(`{"r.example":{"username":"` + name + `","password":"p"}}`)}
	return s, nil
}

// tenant is a pod with pull secrets.
func tenant(name string, policy corev1.PullPolicy, secrets ...string) *corev1.Pod {
	p := testPod(30, nil)
	p.Name, p.UID = name, types.UID(name)
	c := &p.Spec.Containers[0]
	c.Image, c.ImagePullPolicy = "r.example/app:1", policy
	for _, s := range secrets {
		p.Spec.ImagePullSecrets = append(p.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: s})
	}
	return p
}

// An image that one tenant has pulled is no other's, whichever way its use is asked for:
// by the runtime's answer, by the plan's, or before a kill.
func TestImageOfAnotherTenant(t *testing.T) {
	const never = `ErrImageNeverPull Container image "r.example/app:1" is not present with pull policy of Never`
	for name, tt := range map[string]struct {
		pod    *corev1.Pod
		reason string
		events []string
	}{
		"the same Secret": {tenant("a2", corev1.PullIfNotPresent, "ann"), "",
			[]string{`Pulled Container image "r.example/app:1" already present on machine and can be accessed by the pod`}},
		"the same Secret, Never": {tenant("a3", corev1.PullNever, "ann"), "",
			[]string{`Pulled Container image "r.example/app:1" already present on machine and can be accessed by the pod`}},
		"no Secret, Never":      {tenant("b1", corev1.PullNever), "ErrImageNeverPull", []string{never}},
		"another Secret, Never": {tenant("b2", corev1.PullNever, "bob"), "ErrImageNeverPull", []string{never}},
		"another Secret": {tenant("b3", corev1.PullIfNotPresent, "bob"), "ErrImagePull",
			[]string{`Pulling Pulling image "r.example/app:1"`, `Failed Failed to pull image "r.example/app:1": rpc error: code = Unknown desc = denied`}},
		"its own right to it": {tenant("b4", corev1.PullIfNotPresent, "bob", "ann"), "",
			[]string{`Pulled Container image "r.example/app:1" already present on machine and can be accessed by the pod`}},
		"a Secret that is gone": {tenant("b5", corev1.PullIfNotPresent, "gone"), "ErrImagePull", []string{
			"FailedToRetrieveImagePullSecret Unable to retrieve some image pull secrets (gone); attempting to pull the image may not succeed.",
			`Pulling Pulling image "r.example/app:1"`, `Failed Failed to pull image "r.example/app:1": rpc error: code = Unknown desc = denied`}},
	} {
		for way, need := range map[string]plan.ImageNeed{
			"asked": {}, "planned": plan.DecideImage(&tt.pod.Spec.Containers[0], "r.example/app:1"),
		} {
			t.Run(name+", "+way, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFakeRuntime()
					f.Images = map[string]bool{}
					r := privateRegistry{f, "ann"}
					m := newImageManager(r, images.New(images.Config{Secrets: r, Events: f}, logr.Discard()), f, plan.AllDifferences())
					first := tenant("a1", corev1.PullIfNotPresent, "ann")
					if _, err := m.ensure(t.Context(), first, "app", plan.ImageKeyOf(&first.Spec.Containers[0]), plan.ImageNeed{}); err != nil {
						t.Fatal(err)
					}
					before := len(f.ops("Event"))
					c := &tt.pod.Spec.Containers[0]
					if got := m.usable(t.Context(), tt.pod, c.Image, "r.example/app:1"); got != (tt.reason == "") {
						t.Errorf("usable %t before a kill", got)
					}
					ref, err := m.ensure(t.Context(), tt.pod, "app", plan.ImageKeyOf(c), need)
					if reason := reasonIf(err); reason != tt.reason || (ref == "") != (err != nil) {
						t.Errorf("image %q, error %v, want %q", ref, err, tt.reason)
					}
					var events []string
					for _, e := range f.ops("Event")[before:] {
						events = append(events, e.Text("reason")+" "+e.Text("message"))
					}
					if !slices.Equal(events, tt.events) {
						t.Errorf("events\n%s\nwant\n%s", strings.Join(events, "\n"), strings.Join(tt.events, "\n"))
					}
				})
			})
		}
	}
}

func reasonIf(err error) string {
	if err == nil {
		return ""
	}
	return reasonOf(err)
}
