// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package badinput tests that what is wrong is said, with the path or the name
// of what is wrong, and that nothing else suffers from it. The shim reaches
// containerd through a proxy that can swallow a call.
package badinput

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/managedworkload/managedworkload/hack/criproxy"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
	"github.com/managedworkload/managedworkload/hack/localstack"
)

var (
	env   *harness.Env
	proxy *criproxy.Proxy
)

func TestMain(m *testing.M) {
	os.Exit(harness.Run(m, &env, localstack.Options{}, throughProxy))
}

// throughProxy starts the shim once more, on the proxy's socket.
func throughProxy(ctx context.Context, e *harness.Env) error {
	socket := filepath.Join(e.Stack.StateDir(), "proxy.sock")
	var err error
	if proxy, err = criproxy.Start(socket, e.Stack.CRIEndpoint()); err != nil {
		return err
	}
	if err := e.Stack.Shim.Stop(ctx); err != nil {
		return err
	}
	args := e.Stack.Shim.Args()
	for i, arg := range args {
		if strings.HasPrefix(arg, "--runtime-endpoint=") {
			args[i] = "--runtime-endpoint=unix://" + socket
		}
	}
	e.Stack.Shim.SetArgs(args...)
	return e.Stack.Shim.Start(ctx)
}

const (
	testImage = "managedworkload.dev/testprogram:v1"
	dirVolume = `
volumes: [{name: dir, hostPath: {path: $DIR}}]`
	dirMount = `volumeMounts: [{name: dir, mountPath: /dir}]`
	plain    = `
containers: [{name: c, image: ` + testImage + `, args: [serve, --log-file=/dir/c], ` + dirMount + `}]` + dirVolume
)

func contains(t *testing.T, what, text, part string) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("%s: %q, want %q in it", what, text, part)
	}
}
