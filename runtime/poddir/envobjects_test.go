// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package poddir

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/runtime/objects"
)

// fakeObjects has one ConfigMap and one Secret in the namespace ns. "later" was not
// received yet.
type fakeObjects struct{}

func (fakeObjects) ConfigMap(namespace, name string) (*corev1.ConfigMap, error) {
	if err := known("configmap", namespace, name); err != nil {
		return nil, err
	}
	return &corev1.ConfigMap{
		Data:       map[string]string{"KEY": "from config", "B.b": "odd", "A": "first"},
		BinaryData: map[string][]byte{"BINARY": {1}},
	}, nil
}

func (fakeObjects) Secret(namespace, name string) (*corev1.Secret, error) {
	if err := known("secret", namespace, name); err != nil {
		return nil, err
	}
	data := map[string][]byte{"KEY": []byte("from secret"), "S": []byte("hidden")}
	switch name {
	case "nul":
		data["BAD"] = []byte("a\x00b")
	case "binary":
		data["BAD"] = []byte{0xff}
	}
	return &corev1.Secret{Data: data}, nil
}

func known(resource, namespace, name string) error {
	switch {
	case namespace != "ns":
		return errors.New("in namespace " + namespace)
	case name == "none":
		return apierrors.NewNotFound(corev1.Resource(resource), name)
	case name == "later":
		return errors.New(resource + ` "later" has not been received`)
	}
	return nil
}

func object(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }

func configKey(name, key string, optional *bool) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: object(name), Key: key, Optional: optional}}
}

func secretKey(name, key string, optional *bool) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: object(name), Key: key, Optional: optional}}
}

func fromConfig(prefix, name string, optional *bool) corev1.EnvFromSource {
	return corev1.EnvFromSource{Prefix: prefix, ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: object(name), Optional: optional}}
}

func fromSecret(prefix, name string, optional *bool) corev1.EnvFromSource {
	return corev1.EnvFromSource{Prefix: prefix, SecretRef: &corev1.SecretEnvSource{LocalObjectReference: object(name), Optional: optional}}
}

func TestEnvironmentFromObjects(t *testing.T) {
	yes := ptr.To(true)
	tests := map[string]struct {
		from    []corev1.EnvFromSource
		env     []corev1.EnvVar
		want    []EnvVar
		wantErr string
	}{
		"a key of each": {
			env: []corev1.EnvVar{
				{Name: "C", ValueFrom: configKey("c", "KEY", nil)}, {Name: "S", ValueFrom: secretKey("s", "KEY", nil)},
				{Name: "BOTH", Value: "$(C), $(S)"},
			},
			want: []EnvVar{{"C", "from config"}, {"S", "from secret"}, {"BOTH", "from config, from secret"}},
		},
		"all of a ConfigMap, without its binary data, whatever the names": {
			from: []corev1.EnvFromSource{fromConfig("", "c", nil)},
			want: []EnvVar{{"A", "first"}, {"B.b", "odd"}, {"KEY", "from config"}},
		},
		"all of a Secret, with a prefix": {
			from: []corev1.EnvFromSource{fromSecret("P_", "s", nil)},
			want: []EnvVar{{"P_KEY", "from secret"}, {"P_S", "hidden"}},
		},
		"the later source wins, and env over both": {
			from: []corev1.EnvFromSource{fromConfig("", "c", nil), fromSecret("", "s", nil)},
			env:  []corev1.EnvVar{{Name: "A", Value: "own, $(KEY)"}},
			want: []EnvVar{{"A", "own, from secret"}, {"B.b", "odd"}, {"KEY", "from secret"}, {"S", "hidden"}},
		},
		"what is optional is left out": {
			from: []corev1.EnvFromSource{fromConfig("", "none", yes), fromSecret("", "none", yes), fromConfig("", "c", yes)},
			env: []corev1.EnvVar{
				{Name: "KEY", ValueFrom: configKey("none", "k", yes)}, {Name: "X", ValueFrom: secretKey("none", "k", yes)},
				{Name: "Y", ValueFrom: configKey("c", "k", yes)}, {Name: "Z", ValueFrom: secretKey("s", "k", yes)},
			},
			want: []EnvVar{{"A", "first"}, {"B.b", "odd"}, {"KEY", "from config"}},
		},
		"no such ConfigMap":    {env: []corev1.EnvVar{{Name: "X", ValueFrom: configKey("none", "k", nil)}}, wantErr: `configmap "none" not found`},
		"no such Secret":       {env: []corev1.EnvVar{{Name: "X", ValueFrom: secretKey("none", "k", nil)}}, wantErr: `secret "none" not found`},
		"no such key":          {env: []corev1.EnvVar{{Name: "X", ValueFrom: configKey("c", "k", nil)}}, wantErr: `couldn't find key k in ConfigMap ns/c`},
		"no such key, Secret":  {env: []corev1.EnvVar{{Name: "X", ValueFrom: secretKey("s", "k", nil)}}, wantErr: `couldn't find key k in Secret ns/s`},
		"a binary key is none": {env: []corev1.EnvVar{{Name: "X", ValueFrom: configKey("c", "BINARY", nil)}}, wantErr: `couldn't find key BINARY in ConfigMap ns/c`},
		"all of none":          {from: []corev1.EnvFromSource{fromConfig("", "none", nil)}, wantErr: `configmap "none" not found`},
		"all of none, Secret":  {from: []corev1.EnvFromSource{fromSecret("", "none", nil)}, wantErr: `secret "none" not found`},
		"optional does not mean that it may be left out while it is not known": {
			from: []corev1.EnvFromSource{fromConfig("", "later", yes)}, wantErr: `configmap "later" has not been received`,
		},
		"nor a key of it": {env: []corev1.EnvVar{{Name: "X", ValueFrom: secretKey("later", "k", yes)}}, wantErr: `secret "later" has not been received`},
		"a value with a NUL byte is not quoted": {
			from:    []corev1.EnvFromSource{fromSecret("", "nul", nil)},
			wantErr: "key BAD in Secret ns/nul contains a NUL byte: it cannot be an environment variable",
		},
		"a value that is no text": {
			env:     []corev1.EnvVar{{Name: "X", ValueFrom: secretKey("binary", "BAD", nil)}},
			wantErr: "key BAD in Secret ns/binary is not UTF-8: it cannot be an environment variable",
		},
	}
	m := newManager(t, func(c *Config) { c.Objects = fakeObjects{} })
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			env, _, err := m.environment(testPod(nil), &corev1.Container{Name: "c", EnvFrom: tt.from, Env: tt.env}, nil)
			if tt.wantErr != "" {
				if err == nil || err.Error() != tt.wantErr {
					t.Errorf("error %v, want %s", err, tt.wantErr)
				}
				return
			}
			if diff := cmp.Diff(tt.want, env); err != nil || diff != "" {
				t.Errorf("error %v, env (-want +got):\n%s", err, diff)
			}
		})
	}
}

// later has not received its objects before a time.
type later struct {
	fakeObjects
	from time.Time
}

func (l later) ConfigMap(namespace, name string) (*corev1.ConfigMap, error) {
	if time.Now().Before(l.from) {
		return nil, fmt.Errorf("configmap %q %w", name, objects.ErrNotReceived)
	}
	return l.fakeObjects.ConfigMap(namespace, name)
}

// A container waits for a short time for objects that may still come, and no longer than
// its pod is wanted.
func TestObjectsThatAreStillToCome(t *testing.T) {
	tests := map[string]struct {
		comes, limit, want time.Duration
		wantErr            error
	}{
		"soon":           {comes: 2 * time.Second, limit: time.Hour, want: 2 * time.Second},
		"too late":       {comes: time.Hour, limit: time.Hour, want: objectPatience, wantErr: objects.ErrNotReceived},
		"pod is gone":    {comes: time.Hour, limit: time.Second, want: time.Second, wantErr: context.DeadlineExceeded},
		"after the wait": {comes: objectPatience, limit: time.Hour, want: objectPatience},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				m := newManager(t, func(c *Config) { c.Objects = later{from: began.Add(tt.comes)} })
				ctx, cancel := context.WithTimeout(t.Context(), tt.limit)
				defer cancel()
				c := &corev1.Container{Name: "c", EnvFrom: []corev1.EnvFromSource{fromConfig("", "conf", nil)}}
				options, err := m.ContainerOptions(ctx, testPod(nil), c, nil, 0)
				if !errors.Is(err, tt.wantErr) || (err == nil) != (len(options.Env) > 0) {
					t.Errorf("error %v, env %v", err, options.Env)
				}
				if waited := time.Since(began); waited != tt.want {
					t.Errorf("it took %v, want %v", waited, tt.want)
				}
			})
		})
	}
}

func TestContainersFindTheAPIServer(t *testing.T) {
	m := newManager(t, func(c *Config) { c.APIServer = APIServer{Host: "fd00::1", Port: "6443"} })
	c := &corev1.Container{Name: "c", Command: []string{"$(KUBERNETES_SERVICE_HOST)"}, Env: []corev1.EnvVar{
		{Name: "URL", Value: "https://[$(KUBERNETES_SERVICE_HOST)]"}, {Name: "KUBERNETES_SERVICE_PORT", Value: "1"},
	}}
	options, err := m.ContainerOptions(t.Context(), testPod(nil), c, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := []EnvVar{
		{"URL", "https://[fd00::1]"},
		{"KUBERNETES_SERVICE_PORT", "1"},
		{"KUBERNETES_SERVICE_HOST", "fd00::1"},
		{"KUBERNETES_SERVICE_PORT_HTTPS", "6443"},
		{"KUBERNETES_PORT", "tcp://[fd00::1]:6443"},
		{"KUBERNETES_PORT_6443_TCP", "tcp://[fd00::1]:6443"},
		{"KUBERNETES_PORT_6443_TCP_PROTO", "tcp"},
		{"KUBERNETES_PORT_6443_TCP_PORT", "6443"},
		{"KUBERNETES_PORT_6443_TCP_ADDR", "fd00::1"},
	}
	if diff := cmp.Diff(want, options.Env); diff != "" {
		t.Errorf("env (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"fd00::1"}, options.Command); diff != "" {
		t.Errorf("command (-want +got):\n%s", diff)
	}
}
