// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// The file that is named comes first, then $KUBECONFIG, and both before the
// cluster that the process runs in.
func TestLoad(t *testing.T) {
	write := func(server string) string {
		config := clientcmdapi.NewConfig()
		config.Clusters["c"] = &clientcmdapi.Cluster{Server: server}
		config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c"}
		config.CurrentContext = "c"
		path := filepath.Join(t.TempDir(), "kubeconfig")
		if err := clientcmd.WriteToFile(*config, path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const flag, environment = "https://flag:1", "https://environment:1"
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		file, environment string
		want              string
		wantError         bool
	}{
		"the file":                          {file: write(flag), want: flag},
		"the file before the environment":   {file: write(flag), environment: write(environment), want: flag},
		"the environment":                   {environment: write(environment), want: environment},
		"a missing file is not passed over": {file: filepath.Join(t.TempDir(), "missing"), environment: write(environment), wantError: true},
		"a broken file is not passed over":  {file: broken, environment: write(environment), wantError: true},
		"nothing":                           {wantError: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Setenv(clientcmd.RecommendedConfigPathEnvVar, tc.environment)
			t.Setenv("HOME", t.TempDir())
			// What a pod is given. It has no token here, so that nothing else is found.
			t.Setenv("KUBERNETES_SERVICE_HOST", "192.0.2.1")
			t.Setenv("KUBERNETES_SERVICE_PORT", "443")
			cfg, err := Load(tc.file)
			if (err != nil) != tc.wantError {
				t.Fatalf("Load: %v", err)
			}
			if err == nil && cfg.Host != tc.want {
				t.Errorf("API server %s, want %s", cfg.Host, tc.want)
			}
		})
	}
}

// A machine where nothing names an API server.
func TestNothingIsNamed(t *testing.T) {
	t.Setenv(clientcmd.RecommendedConfigPathEnvVar, "")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	home := clientcmd.RecommendedHomeFile
	t.Cleanup(func() { clientcmd.RecommendedHomeFile = home })
	clientcmd.RecommendedHomeFile = filepath.Join(t.TempDir(), "config")
	if Named("") || !Named("file") {
		t.Error("named without anything, or not by a file")
	}
	if err := os.WriteFile(clientcmd.RecommendedHomeFile, nil, 0o600); err != nil || !Named("") {
		t.Errorf("not named by the home directory (%v)", err)
	}
}
