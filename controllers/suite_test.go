// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/managedworkload/managedworkload/api/options"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// testTiming are the manager's times in the suite against the API server.
var testTiming = timing{releaseAfter: time.Second, killsInterval: 300 * time.Millisecond}

var (
	// api reaches the real API server; nil when its binaries are not there.
	api client.WithWatch
	// apiConfig is its address.
	apiConfig *rest.Config
	// apiKubeconfig is the same as a file's content.
	apiKubeconfig []byte
	// whyNoAPI says what is missing.
	whyNoAPI string
	// stopManager ends the manager. A test that is not parallel may replace it by another.
	stopManager func() error
)

func TestMain(m *testing.M) {
	os.Exit(runSuite(m))
}

// runSuite runs the tests beside one API server and one manager.
func runSuite(m *testing.M) int {
	assets, err := findAssets()
	if err != nil {
		whyNoAPI = err.Error()
		return m.Run()
	}
	env := &envtest.Environment{
		BinaryAssetsDirectory: assets,
		CRDDirectoryPaths:     []string{filepath.Join("..", "config", "crd", "bases")},
		ErrorIfCRDPathMissing: true,
	}
	log := logr.Discard()
	if os.Getenv("MANAGER_LOG") != "" {
		log = funcr.New(func(_, args string) { fmt.Fprintln(os.Stderr, args) }, funcr.Options{LogTimestamp: true})
	}
	ctrl.SetLogger(log)
	pki, err := os.MkdirTemp("", "front-proxy")
	if err == nil {
		defer os.RemoveAll(pki) //nolint:errcheck // a folder of its own
		err = configureFrontProxy(env, pki)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "configure the API server:", err)
		return 1
	}
	apiConfig, err = env.Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, "start the API server:", err)
		return 1
	}
	apiKubeconfig = env.KubeConfig
	defer func() {
		if err := env.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the API server:", err)
		}
	}()
	ctx := logr.NewContext(context.Background(), log)
	err = connect(ctx)
	if err == nil {
		stopManager, err = startManager(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "start the manager:", err)
		return 1
	}
	code := m.Run()
	if err := stopManager(); err != nil {
		fmt.Fprintln(os.Stderr, "the manager:", err)
		return 1
	}
	return code
}

// findAssets is the folder with etcd and kube-apiserver: $KUBEBUILDER_ASSETS, or
// bin of this module. With -short (make check) the API server is not started.
func findAssets() (string, error) {
	flag.Parse()
	if testing.Short() {
		return "", errors.New("needs an API server: not with -short")
	}
	if dir := os.Getenv("KUBEBUILDER_ASSETS"); dir != "" {
		return dir, nil
	}
	dir := filepath.Join("..", "bin")
	for _, name := range []string{"etcd", "kube-apiserver"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return "", fmt.Errorf("KUBEBUILDER_ASSETS is not set and bin/ has no %s: run make tools", name)
		}
	}
	return dir, nil
}

// connect makes the client of the tests, and the namespace of the manager.
func connect(ctx context.Context) error {
	scheme, err := newScheme()
	if err != nil {
		return err
	}
	if api, err = client.NewWithWatch(quickly(), client.Options{Scheme: scheme}); err != nil {
		return err
	}
	return api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultNamespace}})
}

func quickly() *rest.Config {
	cfg := rest.CopyConfig(apiConfig)
	cfg.QPS, cfg.Burst = 500, 500
	return cfg
}

// startManager starts a manager; stop ends it and returns its error.
func startManager(ctx context.Context) (stop func() error, err error) {
	ctx, cancel := context.WithCancel(ctx)
	done, err := runManager(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	return sync.OnceValue(func() error {
		cancel()
		return <-done
	}), nil
}

func runManager(ctx context.Context) (<-chan error, error) {
	cfg := quickly()
	opts := Options{Load: DefaultLoad, Shared: options.Shared{MetricsBindAddress: "0", HealthProbeBindAddress: "0", Namespace: v1alpha1.DefaultNamespace}}
	mgr, err := newManager(ctx, cfg, opts, &record.FakeRecorder{})
	if err != nil {
		return nil, err
	}
	recorder, stop, err := newRecorder(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := setUp(ctx, mgr, opts, recorder, testTiming); err != nil {
		return nil, err
	}
	done := make(chan error, 1)
	go func() {
		defer stop()
		done <- mgr.Start(ctx)
	}()
	return done, nil
}
