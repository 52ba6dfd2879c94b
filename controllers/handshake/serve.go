// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package handshake

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"

	"github.com/managedworkload/managedworkload/controllers/contain"
)

const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	// shutdownTimeout is how long answers under way may take when the manager ends.
	shutdownTimeout = 5 * time.Second
)

// Serve answers requests by HTTPS until ctx is done; so are the contexts of requests, then.
func Serve(ctx context.Context, log logr.Logger, inner net.Listener, config *tls.Config, answer http.Handler) error {
	l := listen(ctx, log, inner, config)
	group, ctx := errgroup.WithContext(ctx)
	web := &http.Server{
		Handler: answer, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return WithRecognition(ctx, func() { l.turns.recognise(hostOf(c)) })
		},
		ErrorLog: slog.NewLogLogger(logr.ToSlogHandler(log.V(1)), slog.LevelInfo),
	}
	group.Go(func() error {
		return contain.Call(log, func() error {
			if err := web.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		})
	})
	group.Go(func() error { return contain.Call(log, func() error { return shutDown(ctx, web) }) })
	return group.Wait()
}

// shutDown ends the server once ctx is done.
func shutDown(ctx context.Context, web *http.Server) error {
	<-ctx.Done()
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := web.Shutdown(ending); err != nil {
		return web.Close()
	}
	return nil
}

// WithRecognition returns a context for a connection; Recognised calls recognise.
func WithRecognition(ctx context.Context, recognise func()) context.Context {
	return context.WithValue(ctx, recognitionKey{}, recognise)
}

// recognitionKey is where the context of a request has what Recognised calls.
type recognitionKey struct{}

// Recognised says that the request with this context comes from someone who has shown who he is:
// handshakes from his address do not wait for those of unknown addresses.
func Recognised(ctx context.Context) {
	if recognise, ok := ctx.Value(recognitionKey{}).(func()); ok {
		recognise()
	}
}
