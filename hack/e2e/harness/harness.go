// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package harness is what the end-to-end tests share: one stack for a test
// binary, workloads written as YAML, waiting by watch, and the journals in which
// the containers themselves wrote down what happened to them.
package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"testing"
	"time"

	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/localstack"
)

// Timeout is how long a test waits for anything before it fails; it is far
// above what anything takes, so that a slow machine fails no test.
const Timeout = 2 * time.Minute

// Env is the stack of a test binary and an administrator's client of its API, nil where there
// is none.
type Env struct {
	Stack *localstack.Stack
	Kube  client.WithWatch
}

// Run starts a stack, runs the tests of the binary on it and takes it down. It
// returns the exit status, and sets *env before the first test. The setups, if
// any, change the stack before that.
func Run(m *testing.M, env **Env, options localstack.Options, setups ...func(context.Context, *Env) error) int {
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		fmt.Println("skipped: the end-to-end tests need root on Linux")
		return 0
	}
	ctrl.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	e, cleanup, err := start(ctx, options)
	if err != nil {
		fmt.Fprintln(os.Stderr, "start the stack:", err)
		return 1
	}
	*env = e
	for _, setup := range setups {
		if err := setup(ctx, e); err != nil {
			fmt.Fprintln(os.Stderr, "set the stack up:", errors.Join(err, cleanup()))
			return 1
		}
	}
	tests := make(chan int, 1)
	go func() { tests <- m.Run() }()
	status := 1
	select {
	case status = <-tests:
	case <-ctx.Done(): // the tests end with the process
		fmt.Fprintln(os.Stderr, "interrupted: taking the stack down")
	}
	if err := cleanup(); err != nil {
		fmt.Fprintln(os.Stderr, "take the stack down:", err)
		return 1
	}
	return status
}

func start(ctx context.Context, options localstack.Options) (*Env, func() error, error) {
	// Unix sockets live below: the path has to be short.
	dir, err := os.MkdirTemp("", "mw-e2e-")
	if err != nil {
		return nil, nil, fmt.Errorf("make the state folder: %w", err)
	}
	// Root of a user namespace, which is another user, has to get to its container's files.
	if err := os.Chmod(dir, 0o711); err != nil { // #nosec G302 -- what is secret below has a mode of its own
		return nil, nil, fmt.Errorf("open the state folder: %w", err)
	}
	options.StateDir = dir
	options.Progress = os.Stdout
	stack, err := localstack.Start(ctx, options)
	if err != nil {
		return nil, nil, err
	}
	cleanup := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), Timeout)
		defer cancel()
		return stack.Stop(ctx)
	}
	if options.StaticDir != "" {
		return &Env{Stack: stack}, cleanup, nil
	}
	kube, err := Client(stack)
	if err != nil {
		return nil, nil, errors.Join(err, cleanup())
	}
	return &Env{Stack: stack, Kube: kube}, cleanup, nil
}

// Client is an administrator's client of the stack's API.
func Client(stack *localstack.Stack) (client.WithWatch, error) {
	scheme := k8sruntime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	kube, err := client.NewWithWatch(stack.RESTConfig(), client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return kube, nil
}
