// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/managedworkload/managedworkload/api/objects"
)

func testPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "ns", UID: "u1", Labels: map[string]string{"b": "2", "a": "1"}},
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "init"}},
			Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
				Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")},
			}}},
		},
	}
}

func notFound(kind, name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: kind}, name)
}

var errAway = errors.New("has not been received from the manager yet")

func testFacts() Facts {
	return Facts{
		ConfigMaps: map[string]Got[*corev1.ConfigMap]{
			"conf": {Value: &corev1.ConfigMap{
				Data: map[string]string{"k": "text", "both": "text"}, BinaryData: map[string][]byte{"bin": {0, 1}},
			}},
			"none": {Err: notFound("configmap", "none")}, "away": {Err: errAway},
		},
		Secrets: map[string]Got[*corev1.Secret]{
			"tls":  {Value: &corev1.Secret{Data: map[string][]byte{"k": []byte("key"), "tls.crt": []byte("crt")}}},
			"none": {Err: notFound("secret", "none")}, "away": {Err: errAway},
		},
		Tokens: map[objects.Token]Got[string]{
			{ExpirationSeconds: 3607}: {Value: "jwt"},
			{Audience: "vault", ExpirationSeconds: objects.DefaultExpirationSeconds}: {Value: "vault-jwt"},
			{Audience: "away", ExpirationSeconds: objects.DefaultExpirationSeconds}:  {Err: errAway},
		},
		Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi")},
	}
}

func named(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }

func configMap(name string, change func(*corev1.ConfigMapVolumeSource)) *corev1.VolumeSource {
	source := &corev1.ConfigMapVolumeSource{LocalObjectReference: named(name)}
	if change != nil {
		change(source)
	}
	return &corev1.VolumeSource{ConfigMap: source}
}

func secret(name string, change func(*corev1.SecretVolumeSource)) *corev1.VolumeSource {
	source := &corev1.SecretVolumeSource{SecretName: name}
	if change != nil {
		change(source)
	}
	return &corev1.VolumeSource{Secret: source}
}

func projected(parts ...corev1.VolumeProjection) *corev1.VolumeSource {
	return &corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: parts}}
}

func configMapPart(name string, items ...corev1.KeyToPath) corev1.VolumeProjection {
	return corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: named(name), Items: items}}
}

func secretPart(name string, items ...corev1.KeyToPath) corev1.VolumeProjection {
	return corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: named(name), Items: items}}
}

func tokenPart(path, audience string, seconds *int64) corev1.VolumeProjection {
	return corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
		Path: path, Audience: audience, ExpirationSeconds: seconds,
	}}
}

func fields(items ...corev1.DownwardAPIVolumeFile) *corev1.VolumeSource {
	return &corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: items}}
}

func field(path, of string) corev1.DownwardAPIVolumeFile {
	return corev1.DownwardAPIVolumeFile{Path: path, FieldRef: &corev1.ObjectFieldSelector{FieldPath: of}}
}

func resourceField(path, container, of string) corev1.DownwardAPIVolumeFile {
	return corev1.DownwardAPIVolumeFile{Path: path, ResourceFieldRef: &corev1.ResourceFieldSelector{ContainerName: container, Resource: of}}
}

func plain(data string) File { return File{Data: []byte(data), Mode: 0o644} }

func withMode(data string, mode int32) File { return File{Data: []byte(data), Mode: mode} }

func TestFiles(t *testing.T) {
	renamed := corev1.KeyToPath{Key: "k", Path: "dir//k", Mode: new(int32(0o400))}
	missing := corev1.KeyToPath{Key: "x", Path: "x"}
	tests := map[string]struct {
		volume  *corev1.VolumeSource
		want    map[string]File
		wantErr string
	}{
		"all of a config map": {
			volume: configMap("conf", nil),
			want:   map[string]File{"k": plain("text"), "both": plain("text"), "bin": plain("\x00\x01")},
		},
		"items of a config map": {
			volume: configMap("conf", func(s *corev1.ConfigMapVolumeSource) {
				s.DefaultMode, s.Items = new(int32(0o444)), []corev1.KeyToPath{renamed, {Key: "bin", Path: "b"}}
			}),
			want: map[string]File{"dir/k": withMode("text", 0o400), "b": withMode("\x00\x01", 0o444)},
		},
		"an item that a config map does not have": {
			volume:  configMap("conf", func(s *corev1.ConfigMapVolumeSource) { s.Items = []corev1.KeyToPath{missing} }),
			wantErr: "configmap references non-existent config key: x",
		},
		"an item that an optional config map does not have": {
			volume: configMap("conf", func(s *corev1.ConfigMapVolumeSource) {
				s.Items, s.Optional = []corev1.KeyToPath{missing, {Key: "k", Path: "k"}}, new(true)
			}),
			want: map[string]File{"k": plain("text")},
		},
		"a config map that does not exist": {volume: configMap("none", nil), wantErr: `configmap "none" not found`},
		"an optional config map that does not exist": {
			volume: configMap("none", func(s *corev1.ConfigMapVolumeSource) { s.Optional = new(true) }),
			want:   map[string]File{},
		},
		"an optional config map that was not received": {
			volume:  configMap("away", func(s *corev1.ConfigMapVolumeSource) { s.Optional = new(true) }),
			wantErr: errAway.Error(),
		},
		"all of a secret": {
			volume: secret("tls", func(s *corev1.SecretVolumeSource) { s.DefaultMode = new(int32(0o400)) }),
			want:   map[string]File{"k": withMode("key", 0o400), "tls.crt": withMode("crt", 0o400)},
		},
		"an item that a secret does not have": {
			volume:  secret("tls", func(s *corev1.SecretVolumeSource) { s.Items = []corev1.KeyToPath{missing} }),
			wantErr: "references non-existent secret key: x",
		},
		"a secret that does not exist": {volume: secret("none", nil), wantErr: `secret "none" not found`},
		"an optional secret that does not exist": {
			volume: secret("none", func(s *corev1.SecretVolumeSource) { s.Optional = new(true) }),
			want:   map[string]File{},
		},
		"fields of the pod": {
			volume: fields(field("labels", "metadata.labels"), field("a/b", "metadata.labels['a']"),
				resourceField("memory", "c", "limits.memory"), resourceField("cpu", "c", "limits.cpu"), resourceField("init", "init", "limits.memory")),
			want: map[string]File{
				"labels": plain("a=\"1\"\nb=\"2\""), "a/b": plain("1"), "memory": plain("67108864"), "cpu": plain("4"), "init": plain("8589934592"),
			},
		},
		"fields that do not exist": {
			volume:  fields(field("a", "spec.nodeName"), resourceField("b", "x", "limits.cpu")),
			wantErr: "[unsupported fieldPath: spec.nodeName, container x not found]",
		},
		"what a service account gets": {
			volume: projected(tokenPart("token", "", new(int64(3607))), configMapPart("conf", corev1.KeyToPath{Key: "k", Path: "ca.crt"}),
				corev1.VolumeProjection{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{field("namespace", "metadata.namespace")}}}),
			want: map[string]File{"token": plain("jwt"), "ca.crt": plain("text"), "namespace": plain("ns")},
		},
		"the last source wins": {
			volume: projected(configMapPart("conf", corev1.KeyToPath{Key: "k", Path: "a//k"}), secretPart("tls", corev1.KeyToPath{Key: "k", Path: "a/k"})),
			want:   map[string]File{"a/k": plain("key")},
		},
		"tokens for two audiences": {
			volume: projected(tokenPart("token", "", new(int64(3607))), tokenPart("vault", "vault", nil)),
			want:   map[string]File{"token": plain("jwt"), "vault": plain("vault-jwt")},
		},
		"all that fails is named": {
			volume:  projected(configMapPart("none"), tokenPart("t", "away", nil), secretPart("tls")),
			wantErr: `[configmap "none" not found, has not been received from the manager yet]`,
		},
		"a source that is not supported": {
			volume:  projected(corev1.VolumeProjection{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{}}),
			wantErr: "one of its sources is not supported",
		},
		"what was not asked for": {volume: configMap("unasked", nil), wantErr: "an object that it refers to was not asked for"},
		"a volume without files": {volume: &corev1.VolumeSource{}, wantErr: "its source has no files"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Files(testPod(), tt.volume, testFacts())
			if tt.wantErr != "" {
				if err == nil || err.Error() != tt.wantErr {
					t.Fatalf("error %v, want %q", err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}

// A token is readable by all where the pod says nothing, and else by its one user, or by
// the group of its volumes.
func TestWhoReadsAToken(t *testing.T) {
	root, user, other := new(int64(0)), new(int64(1000)), new(int64(1001))
	runAs := func(user *int64) *corev1.SecurityContext { return &corev1.SecurityContext{RunAsUser: user} }
	tests := map[string]struct {
		change func(*corev1.PodSpec)
		mode   int32
		owner  *int64
	}{
		"nothing is said":   {change: func(*corev1.PodSpec) {}, mode: 0o644},
		"a user of the pod": {change: func(s *corev1.PodSpec) { s.SecurityContext = &corev1.PodSecurityContext{RunAsUser: user} }, mode: 0o600, owner: user},
		"a group":           {change: func(s *corev1.PodSpec) { s.SecurityContext = &corev1.PodSecurityContext{FSGroup: user} }, mode: 0o600},
		"one user of all containers": {change: func(s *corev1.PodSpec) {
			s.InitContainers[0].SecurityContext, s.Containers[0].SecurityContext = runAs(user), runAs(user)
		}, mode: 0o600, owner: user},
		"root": {change: func(s *corev1.PodSpec) {
			s.InitContainers[0].SecurityContext, s.Containers[0].SecurityContext = runAs(root), runAs(root)
		}, mode: 0o600, owner: root},
		"one container has another": {change: func(s *corev1.PodSpec) {
			s.SecurityContext = &corev1.PodSecurityContext{RunAsUser: user}
			s.Containers[0].SecurityContext = runAs(other)
		}, mode: 0o644},
		"one container says nothing": {change: func(s *corev1.PodSpec) { s.Containers[0].SecurityContext = runAs(user) }, mode: 0o644},
		"an ephemeral container has another": {change: func(s *corev1.PodSpec) {
			s.SecurityContext = &corev1.PodSecurityContext{RunAsUser: user}
			s.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{SecurityContext: runAs(other)}}}
		}, mode: 0o644},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pod := testPod()
			tt.change(&pod.Spec)
			got, err := Files(pod, projected(tokenPart("token", "", new(int64(3607)))), testFacts())
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]File{"token": {Data: []byte("jwt"), Mode: tt.mode, Owner: tt.owner}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}

// Files take whole pages of memory, so that many small ones count too.
func TestSize(t *testing.T) {
	for name, tt := range map[string]struct {
		files map[string]File
		want  int64
	}{
		"none":  {nil, 0},
		"empty": {map[string]File{"a": {}, "b": plain("x")}, 8192},
		"pages": {map[string]File{"a": {Data: make([]byte, 4096)}, "b": {Data: make([]byte, 4097)}}, 3 * 4096},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Size(tt.files); got != tt.want {
				t.Errorf("size %d, want %d", got, tt.want)
			}
		})
	}
}
