// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	grpcstatus "google.golang.org/grpc/status"
)

// tcpPoll is how often the TCP server looks whether the program is healthy.
const tcpPoll = 50 * time.Millisecond

// serveTCP listens while the program is healthy: a TCP probe asks for no more
// than a connection.
func (h *health) serveTCP(ctx context.Context, address string, group *errgroup.Group) error {
	listener, err := listenTCP(address)
	if err != nil {
		return err
	}
	group.Go(func() error {
		defer func() { closeListener(listener) }()
		for ctx.Err() == nil {
			if h.live() != nil {
				closeListener(listener)
				listener = nil
				pauseFor(ctx, tcpPoll)
				continue
			}
			if listener == nil {
				if listener, err = listenTCP(address); err != nil {
					return err
				}
			}
			if err := acceptOne(listener); err != nil {
				return err
			}
		}
		return nil
	})
	return nil
}

func listenTCP(address string) (*net.TCPListener, error) {
	resolved, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, err
	}
	return net.ListenTCP("tcp", resolved)
}

func closeListener(listener *net.TCPListener) {
	if listener != nil {
		_ = listener.Close() // nothing was written that could be lost
	}
}

// acceptOne takes a connection if one comes in soon, and closes it.
func acceptOne(listener *net.TCPListener) error {
	if err := listener.SetDeadline(time.Now().Add(tcpPoll)); err != nil {
		return err
	}
	conn, err := listener.Accept()
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return nil
	}
	if err != nil {
		return fmt.Errorf("accept: %w", err)
	}
	return conn.Close()
}

func pauseFor(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// grpcHealth is the gRPC health service: its services are the three checks.
type grpcHealth struct {
	healthv1.UnimplementedHealthServer
	health *health
}

// Check answers for "" (the same as liveness), liveness, readiness and startup.
func (g *grpcHealth) Check(_ context.Context, r *healthv1.HealthCheckRequest) (*healthv1.HealthCheckResponse, error) {
	var err error
	switch r.GetService() {
	case "", "liveness":
		err = g.health.live()
	case "readiness":
		err = g.health.ready()
	case "startup":
		err = g.health.started()
	default:
		return nil, grpcstatus.Errorf(codes.NotFound, "no service %q", r.GetService())
	}
	if err != nil {
		return &healthv1.HealthCheckResponse{Status: healthv1.HealthCheckResponse_NOT_SERVING}, nil //nolint:nilerr // the answer is the verdict
	}
	return &healthv1.HealthCheckResponse{Status: healthv1.HealthCheckResponse_SERVING}, nil
}

func (h *health) serveGRPC(ctx context.Context, address string, group *errgroup.Group) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	healthv1.RegisterHealthServer(server, &grpcHealth{health: h})
	group.Go(func() error { return server.Serve(listener) })
	group.Go(func() error {
		<-ctx.Done()
		server.Stop()
		return nil
	})
	return nil
}
