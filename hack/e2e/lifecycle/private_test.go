// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/hack/localstack"
	"github.com/managedworkload/managedworkload/runtime/cri"
	"github.com/managedworkload/managedworkload/runtime/images"
)

// pullSecret is a Secret of a namespace with a login for an image's registry.
func pullSecret(t *testing.T, namespace, image, user, password string) *corev1.Secret {
	t.Helper()
	host, _, _ := strings.Cut(image, "/")
	config, err := json.Marshal(map[string]any{"auths": map[string]any{host: map[string]string{"username": user, "password": password}}})
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pull", UID: types.UID(namespace)},
		Type:       corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: config},
	}
}

// secretsOf are pull secrets, by namespace.
type secretsOf map[string]*corev1.Secret

func (s secretsOf) Secret(namespace, _ string) (*corev1.Secret, error) { return s[namespace], nil }

// noPodDir is a place for pods that have none.
type noPodDir struct{ cri.PodDir }

// containerd takes the credentials of a pull secret, refuses others, and calls what it has
// pulled as the records do: for as long as it has it.
func TestPrivateImageInContainerd(t *testing.T) {
	t.Parallel()
	image := env.PrivateImage(t, "ann", "right")
	client, err := cri.Dial(t.Context(), cri.Config{Endpoint: env.Stack.Nodes[0].CRIEndpoint(), Instance: "private", PodDir: noPodDir{}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close() //nolint:errcheck // It only read and pulled.
	secrets := secretsOf{"a": pullSecret(t, "a", image, "ann", "right"), "b": pullSecret(t, "b", image, "bob", "wrong")}
	dir := t.TempDir()
	manager := func() *images.Manager {
		return images.New(images.Config{Dir: dir, Secrets: secrets, Runtime: client}, logr.Discard())
	}
	pull := func(namespace string) (string, error) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p", UID: "private"}}
		pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "pull"}}
		access := manager().For(pod, image)
		if ref, err := client.ImageRef(t.Context(), image); err != nil || ref != "" {
			if must, err := access.MustPull(t.Context(), ref); err != nil || !must {
				return ref, err
			}
		}
		if err := access.Prepare(t.Context()); err != nil {
			return "", err
		}
		return access.Pull(t.Context(), func(ctx context.Context, login *images.Login) (string, error) {
			return client.PullImage(ctx, image, pod, login)
		})
	}
	if _, err := pull("b"); err == nil {
		t.Fatal("a wrong password pulled the image")
	}
	ref, err := pull("a")
	if err != nil {
		t.Fatal(err)
	}
	if known, err := client.ImageRef(t.Context(), image); err != nil || known != ref {
		t.Errorf("pulled %q, the runtime has %q, error %v", ref, known, err)
	}
	all, err := client.ListImages(t.Context())
	if err != nil || !slices.ContainsFunc(all, func(i images.Image) bool { return i.ID == ref }) {
		t.Errorf("%q is not among %v, error %v", ref, all, err)
	}
	if _, err := pull("b"); err == nil {
		t.Error("a wrong password may use what another tenant has pulled")
	}
	if again, err := pull("a"); err != nil || again != ref {
		t.Errorf("the tenant that pulled it has %q, error %v", again, err)
	}
}

// The test program's image was imported into containerd. It stays every pod's when a tenant pulls the
// same content with its Secret, and what the tenant has pulled stays the tenant's.
func TestPreloadedImageInContainerd(t *testing.T) {
	t.Parallel()
	image := env.PrivateImage(t, "ann", "right")
	client, err := cri.Dial(t.Context(), cri.Config{Endpoint: env.Stack.Nodes[0].CRIEndpoint(), Instance: "preloaded", PodDir: noPodDir{}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close() //nolint:errcheck // It only read and pulled.
	dir, secrets := t.TempDir(), secretsOf{"a": pullSecret(t, "a", image, "ann", "right")}
	manager := func() *images.Manager {
		return images.New(images.Config{Dir: dir, Secrets: secrets, Runtime: client}, logr.Discard())
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p", UID: "preloaded"}}
	pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "pull"}}
	access := manager().For(pod, image)
	if err := access.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	ref, err := access.Pull(t.Context(), func(ctx context.Context, login *images.Login) (string, error) {
		return client.PullImage(ctx, image, pod, login)
	})
	if err != nil {
		t.Fatal(err)
	}
	if there, err := client.ImageRef(t.Context(), localstack.ImageV1); err != nil || there != ref {
		t.Fatalf("pulled %s, but %s is %s, error %v: not the same content", ref, localstack.ImageV1, there, err)
	}
	for name, want := range map[string]bool{localstack.ImageV1: false, ref: false, image: true} {
		must, err := manager().For(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "p"}}, name).MustPull(t.Context(), ref)
		if err != nil || must != want {
			t.Errorf("%s: must pull %t, error %v, want %t", name, must, err, want)
		}
	}
}
