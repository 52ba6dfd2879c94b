// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// healthOptions are the flags about health.
type healthOptions struct {
	http, https, tcp, grpc string

	failFile       string
	unhealthyAfter time.Duration
	readyAfter     time.Duration
	startedAfter   time.Duration
	requirements   requirements
}

func (o *healthOptions) register(flags *flag.FlagSet) {
	flags.StringVar(&o.http, "http", "", "address to serve HTTP on, such as :8080")
	flags.StringVar(&o.https, "https", "", "address to serve HTTPS on, with a certificate of no known authority")
	flags.StringVar(&o.tcp, "tcp", "", "address that accepts TCP connections while healthy")
	flags.StringVar(&o.grpc, "grpc", "", "address to serve the gRPC health protocol on: services \"\", liveness, readiness, startup")
	flags.StringVar(&o.failFile, "fail-file", "", "unhealthy while this file exists")
	flags.DurationVar(&o.unhealthyAfter, "unhealthy-after", never, "unhealthy from this time after the start")
	flags.DurationVar(&o.readyAfter, "ready-after", 0, "ready from this time after the start")
	flags.Var(&o.requirements, "require", "command and arguments, parted by spaces, without which it is not ready until it has succeeded once; may be repeated")
	flags.DurationVar(&o.startedAfter, "started-after", 0, "started from this time after the start")
}

// health answers what the probes ask.
type health struct {
	opts  healthOptions
	log   *journal
	start time.Time
	exit  chan int

	mu      sync.Mutex
	failing bool
	unready bool

	required checklist
}

func newHealth(opts healthOptions, log *journal) *health {
	return &health{
		opts: opts, log: log, start: time.Now(), exit: make(chan int, 1), required: checklist{left: opts.requirements, log: log},
	}
}

// live returns why the program is unhealthy, or nil.
func (h *health) live() error {
	h.mu.Lock()
	failing := h.failing
	h.mu.Unlock()
	if failing {
		return fmt.Errorf("asked to fail")
	}
	if h.opts.unhealthyAfter >= 0 && time.Since(h.start) >= h.opts.unhealthyAfter {
		return fmt.Errorf("unhealthy since %s after the start", h.opts.unhealthyAfter)
	}
	if h.opts.failFile != "" {
		if _, err := os.Stat(h.opts.failFile); err == nil {
			return fmt.Errorf("%s exists", h.opts.failFile)
		}
	}
	return nil
}

// ready returns why the program is not ready, or nil.
func (h *health) ready() error {
	h.mu.Lock()
	unready := h.unready
	h.mu.Unlock()
	if unready {
		return fmt.Errorf("asked not to be ready")
	}
	if time.Since(h.start) < h.opts.readyAfter {
		return fmt.Errorf("not ready before %s after the start", h.opts.readyAfter)
	}
	if err := h.required.check(); err != nil {
		return err
	}
	return h.live()
}

// started returns why the program has not started, or nil.
func (h *health) started() error {
	if time.Since(h.start) < h.opts.startedAfter {
		return fmt.Errorf("not started before %s after the start", h.opts.startedAfter)
	}
	return h.live()
}

func (h *health) setFailing(failing bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failing = failing
}

func (h *health) setUnready(unready bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unready = unready
}

// serve starts every server that has an address. They end with the context; the
// function returned waits for that.
func (h *health) serve(ctx context.Context) (func() error, error) {
	group, ctx := errgroup.WithContext(ctx)
	for _, server := range []struct {
		address string
		serve   func(ctx context.Context, address string, group *errgroup.Group) error
	}{
		{h.opts.http, h.serveHTTP},
		{h.opts.https, h.serveHTTPS},
		{h.opts.tcp, h.serveTCP},
		{h.opts.grpc, h.serveGRPC},
	} {
		if server.address == "" {
			continue
		}
		if err := server.serve(ctx, server.address, group); err != nil {
			return nil, err
		}
	}
	return group.Wait, nil
}
