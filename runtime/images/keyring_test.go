// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func dockerConfig(name, auths string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "uid-1"},
		Type:       corev1.SecretTypeDockerConfigJson,
		Data:       map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths":` + auths + `}`)},
	}
}

func user(name string) string { return `{"username":"` + name + `","password":"p"}` }

// The comparison with the kubelet's own matching is in hack/conformance.
func TestCredentialsFor(t *testing.T) {
	auth := base64.StdEncoding.EncodeToString([]byte("ann:pass:word"))
	old := dockerConfig("old", "")
	old.Type, old.Data = corev1.SecretTypeDockercfg, map[string][]byte{corev1.DockerConfigKey: []byte(`{"r.example":` + user("old") + `}`)}
	opaque := dockerConfig("opaque", `{"r.example":`+user("no")+`}`)
	opaque.Type = corev1.SecretTypeOpaque
	for name, tt := range map[string]struct {
		image   string
		secrets []*corev1.Secret
		want    []string
	}{
		"none":                  {"r.example/app", nil, nil},
		"another host":          {"r.example/app", []*corev1.Secret{dockerConfig("s", `{"q.example":`+user("q")+`}`)}, nil},
		"the most specific one": {"r.example/team/app:v1", []*corev1.Secret{dockerConfig("s", `{"r.example":`+user("host")+`,"https://r.example/team":`+user("team")+`}`)}, []string{"team", "host"}},
		"in the order of the Secrets": {"r.example/app", []*corev1.Secret{
			dockerConfig("s", `{"r.example":`+user("first")+`}`), old, dockerConfig("u", `{"r.example":`+user("third")+`}`)}, []string{"first", "old", "third"}},
		"a pattern":           {"r.example:5000/app", []*corev1.Secret{dockerConfig("s", `{"*.example:5000":`+user("any")+`,"*.example":`+user("port")+`}`)}, []string{"any"}},
		"auth, and an API":    {"r.example/app", []*corev1.Secret{dockerConfig("s", `{"https://r.example/v2/":{"auth":"`+auth+`"}}`)}, []string{"ann"}},
		"Docker Hub":          {"busybox", []*corev1.Secret{dockerConfig("s", `{"https://index.docker.io/v1/":`+user("hub")+`}`)}, []string{"hub"}},
		"a type without them": {"r.example/app", []*corev1.Secret{opaque}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := credentialsFor(tt.image, tt.secrets)
			if err != nil {
				t.Fatal(err)
			}
			var users []string
			for _, c := range got {
				users = append(users, c.Username)
				if c.Username == "ann" && c.Password != "pass:word" {
					t.Errorf("password %q", c.Password)
				}
			}
			if !slices.Equal(users, tt.want) {
				t.Errorf("got %q, want %q", users, tt.want)
			}
		})
	}
}

// Whatever a pull secret holds, an error names the Secret and its key, and nothing in it.
func TestBrokenPullSecret(t *testing.T) {
	for _, auths := range []string{`{"r.example":{"auth":"hunter2!"}}`, `{"r.example":{"auth":"aHVudGVyMg=="}}`, `["hunter2"]`, `{"hunter2.example":7}`, `{`} {
		_, err := credentialsFor("r.example/app", []*corev1.Secret{dockerConfig("s", auths)})
		if err == nil || !strings.Contains(err.Error(), `secret "s"`) || !strings.Contains(err.Error(), corev1.DockerConfigJsonKey) {
			t.Errorf("%s: error %v", auths, err)
		}
		if err != nil && strings.Contains(err.Error(), "hunter") {
			t.Errorf("the error shows what the Secret holds: %v", err)
		}
	}
}
