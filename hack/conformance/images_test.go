// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/distribution/reference"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/credentialprovider"
	"k8s.io/kubernetes/pkg/credentialprovider/secrets"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/images/pullmanager"

	"github.com/managedworkload/managedworkload/runtime/images"
)

// pullers are the pods of a comparison, and what the registry has.
type pullers struct {
	*rand.Rand
	// registries are those that Secrets name.
	registries []string
	secrets    []*corev1.Secret
	pods       []*corev1.Pod
}

var (
	registries = []string{
		"r.example", "https://r.example", "http://r.example/", "r.example/team", "https://r.example/v1/", "https://r.example/v2/team",
		"*.example", "r.*", "r.example:5000", "*.example:5000", "https://index.docker.io/v1/", "docker.io", "docker.io/library", "localhost", "localhost:5000",
		"[::1]:5000", "r.exam?le/team/app", "https://%zz", "[a-", "",
	}
	pullImages = []string{
		"r.example/app", "r.example/app:v1", "r.example/team/app:v1", "r.example/team/app", "r.example:5000/app:v1", "q.example/app",
		"busybox", "busybox:1", "docker.io/library/busybox:1", "team/app", "localhost/app", "localhost:5000/app", "[::1]:5000/app",
		"r.example/app@sha256:0123456789012345678901234567890123456789012345678901234567890123",
	}
	refs = []string{"sha256:1", "sha256:2"}
)

func newPullers(seed uint64, registries []string) *pullers {
	p := &pullers{Rand: rand.New(rand.NewPCG(seed, 0)), registries: registries}
	for i := range 4 {
		p.secrets = append(p.secrets, p.secret(i))
	}
	for i := range 4 {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("p", i), UID: types.UID(fmt.Sprint("p", i))}}
		for range p.IntN(3) {
			pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: p.secrets[p.IntN(4)].Name})
		}
		p.pods = append(p.pods, pod)
	}
	return p
}

// secret has entries of different places: those of one place are in no order in the
// kubelet.
func (p *pullers) secret(i int) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("s", i), UID: types.UID(fmt.Sprint("u", p.IntN(3)))}}
	auths, places := map[string]any{}, map[string]bool{}
	for range p.IntN(4) {
		registry := p.registries[p.IntN(len(p.registries))]
		keyring := &credentialprovider.BasicDockerKeyring{}
		keyring.Add(nil, credentialprovider.DockerConfig{registry: {}})
		place := fmt.Sprintf("%+v", keyring)
		if places[place] {
			continue
		}
		places[place] = true
		user, password := fmt.Sprint("user", p.IntN(3)), fmt.Sprint("p:", p.IntN(2))
		auths[registry] = map[string]string{"username": user, "password": password, "email": "e"}
		if p.IntN(2) == 0 {
			encoding := []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding}[p.IntN(2)]
			auths[registry] = map[string]string{"username": "no", "auth": encoding.EncodeToString([]byte(user + ":" + password))}
		}
	}
	s.Type, s.Data = corev1.SecretTypeDockercfg, map[string][]byte{corev1.DockerConfigKey: encode(auths)}
	switch p.IntN(8) {
	case 0:
		s.Type = corev1.SecretTypeOpaque
	case 1:
		s.Data = nil
	case 2, 3, 4:
		s.Type, s.Data = corev1.SecretTypeDockerConfigJson, map[string][]byte{corev1.DockerConfigJsonKey: encode(map[string]any{"auths": auths})}
	}
	return s
}

func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

// Secret implements images.Secrets.
func (p *pullers) Secret(_, name string) (*corev1.Secret, error) {
	for _, s := range p.secrets {
		if s.Name == name {
			return s, nil
		}
	}
	return nil, errors.New("not found")
}

// kubeletCredentials are those that the kubelet would try.
func (p *pullers) kubeletCredentials(pod *corev1.Pod, image string) ([]credentialprovider.TrackedAuthConfig, error) {
	var found []corev1.Secret
	for _, ref := range pod.Spec.ImagePullSecrets {
		s, _ := p.Secret("", ref.Name)
		found = append(found, *s)
	}
	keyring, err := secrets.MakeDockerKeyring(found, credentialprovider.UnionDockerKeyring{})
	if err != nil {
		return nil, err
	}
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return nil, err
	}
	credentials, _ := keyring.Lookup(named.Name())
	return credentials, nil
}

// credentials are those that a pod tries here; success is the index of the one that works,
// -1 for none.
func tried(ctx context.Context, m *images.Manager, pod *corev1.Pod, image, ref string, success int) (logins []images.Login, err error) {
	access := m.For(pod, image)
	if err := access.Prepare(ctx); err != nil {
		return nil, err
	}
	_, err = access.Pull(ctx, func(_ context.Context, login *images.Login) (string, error) {
		if login == nil {
			login = &images.Login{}
		}
		logins = append(logins, *login)
		if len(logins) == success+1 {
			return ref, nil
		}
		return "", errors.New("denied")
	})
	return logins, err
}

// A pod tries the kubelet's credentials in the kubelet's order.
func TestCredentialsAsTheKubelet(t *testing.T) {
	found := 0
	for seed := range uint64(300) {
		p := newPullers(seed, registries)
		m := images.New(images.Config{Secrets: p}, logr.Discard())
		for _, image := range pullImages {
			for _, pod := range p.pods {
				want, wantErr := p.kubeletCredentials(pod, image)
				got, err := tried(t.Context(), m, pod, image, "", -1)
				var wanted []images.Login
				for _, c := range want {
					wanted = append(wanted, images.Login{Username: c.Username, Password: c.Password})
				}
				if found += len(want); len(want) == 0 {
					wanted = []images.Login{{}}
				}
				if wantErr != nil || err == nil || !slices.Equal(got, wanted) {
					t.Fatalf("seed %d, %s, %s: tried %#v, error %v, want %#v, %v", seed, pod.Name, image, users(got), err, users(wanted), wantErr)
				}
			}
		}
	}
	if found < 1000 {
		t.Errorf("only %d credentials were found", found)
	}
}

func users(logins []images.Login) (names []string) {
	for _, l := range logins {
		names = append(names, l.Username+" "+l.Password)
	}
	return names
}

// After any pulls, changes of Secrets and restarts a pod has to pull an image again where
// it has to in the kubelet.
func TestImageAccessAsInTheKubelet(t *testing.T) {
	answers := map[bool]int{}
	for seed := range uint64(60) {
		p := newPullers(seed, registries[:4])
		dir := t.TempDir()
		var ours *images.Manager
		var kubelet *pullmanager.PullManager
		restart := func() {
			ours = images.New(images.Config{Dir: filepath.Join(dir, "ours"), Secrets: p}, logr.Discard())
			kubelet = newPullManager(t, filepath.Join(dir, "kubelet"))
		}
		restart()
		for range 40 {
			image, pod, ref := pullImages[p.IntN(3)], p.pods[p.IntN(4)], refs[p.IntN(2)]
			switch p.IntN(8) {
			case 0:
				restart()
			case 1:
				changed, next := p.secrets[p.IntN(4)], p.secret(0)
				changed.Type, changed.Data = next.Type, next.Data
			case 2, 3, 4:
				p.pull(t, ours, kubelet, pod, image, ref)
			default:
				got, err := ours.For(pod, image).MustPull(t.Context(), ref)
				want, wantErr := kubelet.MustAttemptImagePull(t.Context(), image, ref, p.podCredentials(pod, image))
				if got != want || (err != nil) != (wantErr != nil) {
					t.Fatalf("seed %d, %s, %s: must pull %t, error %v, in the kubelet %t, %v", seed, pod.Name, image, got, err, want, wantErr)
				}
				answers[got]++
			}
		}
	}
	if answers[true] < 100 || answers[false] < 100 {
		t.Errorf("answers %v", answers)
	}
}

func newPullManager(t *testing.T, dir string) *pullmanager.PullManager {
	t.Helper()
	records, err := pullmanager.NewFSPullRecordsAccessor(klog.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	policy, err := pullmanager.NewImagePullCredentialVerificationPolicy(kubeletconfig.NeverVerifyPreloadedImages, nil)
	if err != nil {
		t.Fatal(err)
	}
	m, err := pullmanager.NewImagePullManager(t.Context(), records, policy, nil, 10)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// pull pulls on both sides with one of the pod's credentials, or fails.
func (p *pullers) pull(t *testing.T, ours *images.Manager, kubelet *pullmanager.PullManager, pod *corev1.Pod, image, ref string) {
	t.Helper()
	credentials, err := p.kubeletCredentials(pod, image)
	if err != nil {
		t.Fatal(err)
	}
	success := p.IntN(max(1, len(credentials))+1) - 1
	if err := kubelet.RecordPullIntent(klog.Background(), image); err != nil {
		t.Fatal(err)
	}
	switch {
	case success < 0:
		kubelet.RecordImagePullFailed(t.Context(), image)
	case len(credentials) == 0:
		kubelet.RecordImagePulled(t.Context(), image, ref, &kubeletconfig.ImagePullCredentials{NodePodsAccessible: true})
	default:
		c := credentials[success]
		kubelet.RecordImagePulled(t.Context(), image, ref, &kubeletconfig.ImagePullCredentials{KubernetesSecrets: []kubeletconfig.ImagePullSecret{secretOf(c)}})
	}
	_, _ = tried(t.Context(), ours, pod, image, ref, success)
}

func secretOf(c credentialprovider.TrackedAuthConfig) kubeletconfig.ImagePullSecret {
	s := c.Source.Secret
	return kubeletconfig.ImagePullSecret{UID: s.UID, Namespace: s.Namespace, Name: s.Name, CredentialHash: c.AuthConfigHash}
}

func (p *pullers) podCredentials(pod *corev1.Pod, image string) pullmanager.GetPodCredentials {
	return func() (own []kubeletconfig.ImagePullSecret, _ *kubeletconfig.ImagePullServiceAccount, err error) {
		credentials, err := p.kubeletCredentials(pod, image)
		for _, c := range credentials {
			own = append(own, secretOf(c))
		}
		return own, nil, err
	}
}
