// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Command benchmemory measures how much memory the manager takes for many NodeWorkloads.
// They come from a server that speaks the Kubernetes API and makes them when they are
// read. What they look like is learned from the manager: it first runs with one node, and
// what it wrote for that one is then there for all.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/managedworkload/managedworkload/hack/simnode"
	"github.com/managedworkload/managedworkload/hack/usage"
)

type options struct {
	nodes, workloads, size, rate int
	binary, mode                 string
	limit                        int64
	window                       time.Duration
}

func main() {
	runtime.LockOSThread() // the manager gets SIGKILL when the thread ends that started it
	var o options
	flag.IntVar(&o.nodes, "nodes", 5000, "number of nodes")
	flag.IntVar(&o.workloads, "workloads", 20, "number of workloads, each on all nodes")
	flag.IntVar(&o.size, "size", 8000, "size of a NodeWorkload in JSON, in bytes")
	flag.IntVar(&o.rate, "rate", 50, "reports a second while the manager is watched at work")
	flag.DurationVar(&o.window, "window", 10*time.Second, "how long it is watched")
	flag.StringVar(&o.binary, "binary", "bin/managedworkload", "managedworkload program to measure")
	flag.StringVar(&o.mode, "mode", "all", "how the manager gets the objects: watchlist, pages, or all for one after the other")
	flag.Int64Var(&o.limit, "limit", 1024, "most MB that the manager may take; 0 is no limit")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "benchmemory:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	dir, err := os.MkdirTemp("", "mw-memory-")
	if err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b := &bench{options: o, dir: dir, server: newServer()}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	serving := &http.Server{Handler: b.server, ReadHeaderTimeout: time.Minute}
	go func() { _ = serving.Serve(listener) }()
	defer serving.Close() //nolint:errcheck // the end
	kubeconfig := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"x","contexts":[{"name":"x","context":{"cluster":"x","user":"x"}}],`+
		`"clusters":[{"name":"x","cluster":{"server":"http://%s"}}],"users":[{"name":"x","user":{}}]}`, listener.Addr())
	if err := os.WriteFile(b.kubeconfig(), []byte(kubeconfig), 0o600); err != nil {
		return err
	}
	return b.measure(ctx)
}

type bench struct {
	options options
	dir     string
	server  *server
}

func (b *bench) kubeconfig() string { return filepath.Join(b.dir, "kubeconfig") }

// measure learns from the manager, and then measures it each way.
func (b *bench) measure(ctx context.Context) error {
	o := b.options
	progress("Learning what the manager writes for one node")
	b.server.created = b.server.answerAsShim
	b.server.putNodes(0, 1)
	b.server.putWorkloads(o.workloads, o.size)
	if err := b.withManager(ctx, func(m *process) error { return b.settle(ctx, m) }); err != nil {
		return err
	}
	if err := b.server.learn(o.nodes); err != nil {
		return err
	}
	b.server.putNodes(1, o.nodes)
	lazy := b.server.kinds[nodeWorkloads].lazy
	if lazy.len() != o.nodes*o.workloads {
		return fmt.Errorf("the manager wrote %d NodeWorkloads for one node, want %d", lazy.len()/o.nodes, o.workloads)
	}
	fmt.Printf("%d NodeWorkloads of %d bytes\n", lazy.len(), len(lazy.text(0)))
	var over error
	for _, mode := range []string{"watchlist", "pages"} {
		if o.mode != "all" && o.mode != mode {
			continue
		}
		b.server.withoutWatchList = mode == "pages"
		if err := b.withManager(ctx, func(m *process) error {
			peak, err := b.watch(ctx, mode, m)
			if o.limit > 0 && peak>>20 > o.limit {
				over = errors.Join(over, fmt.Errorf("%s: the manager took %d MB, more than %d", mode, peak>>20, o.limit))
			}
			return err
		}); err != nil {
			return err
		}
	}
	return over
}

// watch measures the manager at its start, at work, and when it has to list again.
func (b *bench) watch(ctx context.Context, mode string, m *process) (peak int64, err error) {
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"start", func() error { return nil }},
		{"reports", func() error { return b.report(ctx) }},
		{"list again", func() error { b.server.forget(); return pause(ctx, time.Second) }},
	} {
		begun, written := time.Now(), b.server.written("nodeworkloads")
		before, err := usage.CPUTime(m.pid())
		if err != nil {
			return peak, err
		}
		if err := errors.Join(step.do(), b.settle(ctx, m), b.server.complete(b.options.nodes)); err != nil {
			return peak, err
		}
		after, cpuErr := usage.CPUTime(m.pid())
		resident, residentErr := usage.Resident(m.pid())
		if peak, err = usage.Peak(m.pid()); errors.Join(cpuErr, residentErr, err) != nil {
			return peak, errors.Join(cpuErr, residentErr, err)
		}
		fmt.Printf("%s, %s: peak %d MB, %d MB resident, CPU %.1f s, took %.0f s, %d writes of NodeWorkloads\n", mode, step.name,
			peak>>20, resident>>20, (after - before).Seconds(), time.Since(begun).Seconds(), b.server.written("nodeworkloads")-written)
	}
	return peak, nil
}

// report has containers restart.
func (b *bench) report(ctx context.Context) error {
	lazy := b.server.kinds[nodeWorkloads].lazy
	for range int(b.options.window.Seconds() * float64(b.options.rate)) {
		b.server.report(lazy.key(rand.IntN(lazy.len())), func(s *simnode.Share, now time.Time) { s.Crash(now) })
		if err := pause(ctx, time.Second/time.Duration(b.options.rate)); err != nil {
			return err
		}
	}
	return nil
}

// settle waits until the manager is ready and does nothing any more.
func (b *bench) settle(ctx context.Context, m *process) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	defer cancel()
	for quiet := 0; quiet < 3; {
		before, err := usage.CPUTime(m.pid())
		if err != nil {
			return err
		}
		if err := pause(ctx, time.Second); err != nil {
			return fmt.Errorf("wait for the manager to rest: %w\n%s", err, m.tail())
		}
		after, err := usage.CPUTime(m.pid())
		if err != nil {
			return fmt.Errorf("the manager ended: %w\n%s", err, m.tail())
		}
		if quiet++; after-before > 50*time.Millisecond || !m.ready(ctx) {
			quiet = 0
		}
	}
	return nil
}

// withManager runs a manager meanwhile.
func (b *bench) withManager(ctx context.Context, do func(*process) error) error {
	m, err := b.startManager()
	if err != nil {
		return err
	}
	return errors.Join(do(m), m.stop(ctx))
}

func (b *bench) startManager() (*process, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	m := &process{health: listener.Addr().String(), log: filepath.Join(b.dir, "manager.log")}
	log, err := os.Create(m.log)
	if err = errors.Join(err, listener.Close()); err != nil {
		return nil, err
	}
	m.cmd = exec.Command(b.options.binary, "manager", "--kubeconfig="+b.kubeconfig(), "--metrics-bind-address=0",
		"--health-probe-bind-address="+m.health, "--webhook-bind-address=0")
	m.cmd.Stdout, m.cmd.Stderr = log, log
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return m, errors.Join(m.cmd.Start(), log.Close())
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
