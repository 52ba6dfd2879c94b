// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package handshake

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"github.com/go-logr/logr"

	"github.com/managedworkload/managedworkload/controllers/contain"
)

// timeout is how long a handshake may take, with its waits.
const timeout = 10 * time.Second

// listener accepts connections whose handshake is done. They are *tls.Conn, as http.Server wants them
// for HTTP/2.
type listener struct {
	net.Listener
	config *tls.Config
	log    logr.Logger
	turns  *turns

	accepted chan net.Conn
	failed   chan error
	ctx      context.Context
	cancel   context.CancelFunc
}

// listen lasts until it is closed.
func listen(ctx context.Context, log logr.Logger, inner net.Listener, config *tls.Config) *listener {
	l := &listener{Listener: inner, config: config, log: log, turns: newTurns(), accepted: make(chan net.Conn), failed: make(chan error)}
	l.ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go contain.Do(log, l.acceptAll)
	return l
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accepted:
		return c, nil
	case err := <-l.failed:
		return nil, err
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener, and ends the handshakes under way.
func (l *listener) Close() error {
	l.cancel()
	return l.Listener.Close()
}

func (l *listener) acceptAll() {
	for {
		c, err := l.Listener.Accept()
		if err == nil {
			go contain.Do(l.log, func() { l.handshake(c) })
			continue
		}
		select {
		case l.failed <- err: // the server pauses before it accepts again
		case <-l.ctx.Done():
			return
		}
	}
}

func (l *listener) handshake(inner net.Conn) {
	ctx, cancel := context.WithTimeout(l.ctx, timeout)
	defer cancel()
	c := &conn{Conn: inner, ctx: ctx, cancel: cancel, turns: l.turns}
	secure := tls.Server(c, l.config)
	err := errors.New("panic")
	defer func() {
		if err != nil {
			_ = inner.Close()
			l.log.V(1).Info("TLS handshake failed", "remote", inner.RemoteAddr().String(), "reason", err.Error())
		}
	}()
	if err = c.handshake(secure); err != nil {
		return
	}
	select {
	case l.accepted <- secure:
	case <-l.ctx.Done():
		err = l.ctx.Err()
	}
}

// conn is a connection whose handshake takes turns.
type conn struct {
	net.Conn
	ctx    context.Context
	cancel context.CancelFunc
	turns  *turns
	source *source
	// entered is closed when it has its turn.
	entered chan struct{}
	hasTurn bool
	// begun: it had a turn. done: the handshake is over.
	begun, done bool
}

func (c *conn) handshake(secure *tls.Conn) error {
	c.turns.arrive(c, hostOf(c))
	defer func() {
		c.turns.depart(c)
		c.done = true
	}()
	return secure.HandshakeContext(c.ctx)
}

// Read gives the turn back while it waits for the client. A write keeps it: what a server sends in a
// handshake has room in the socket's buffer.
func (c *conn) Read(b []byte) (int, error) {
	if c.done {
		return c.Conn.Read(b)
	}
	c.turns.leave(c)
	n, err := c.Conn.Read(b)
	if err == nil {
		err = c.turns.enter(c)
	}
	return n, err
}

// hostOf is the address of the other side, without its port.
func hostOf(c net.Conn) string {
	remote := c.RemoteAddr().String()
	if host, _, err := net.SplitHostPort(remote); err == nil {
		return host
	}
	return remote
}
