// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shutdown

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/godbus/dbus/v5"

	"github.com/managedworkload/managedworkload/runtime/panics"
)

// What logind, systemd and the bus are called. (org.freedesktop.login1(5))
const (
	loginName      = "org.freedesktop.login1"
	loginPath      = dbus.ObjectPath("/org/freedesktop/login1")
	loginInterface = "org.freedesktop.login1.Manager"
	prepareSignal  = "PrepareForShutdown"

	systemdName      = "org.freedesktop.systemd1"
	systemdPath      = dbus.ObjectPath("/org/freedesktop/systemd1")
	systemdInterface = "org.freedesktop.systemd1.Manager"
	loginUnit        = "systemd-logind.service"

	busName     = "org.freedesktop.DBus"
	ownerSignal = "NameOwnerChanged"

	// callTimeout bounds each call, and the connect.
	callTimeout = 10 * time.Second
)

// login1 is logind on a system bus.
type login1 struct {
	conn   *dbus.Conn
	cancel context.CancelFunc
	events chan Event
	log    logr.Logger
	// owner is the connection that logind has on the bus.
	owner atomic.Pointer[string]
}

// Dial returns what connects to logind through the system bus at an address.
func Dial(address string, log logr.Logger) func(context.Context) (Logind, error) {
	return func(ctx context.Context) (Logind, error) { return dial(ctx, address, log) }
}

func dial(ctx context.Context, address string, log logr.Logger) (_ *login1, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		if err != nil {
			cancel()
		}
	}()
	late := time.AfterFunc(callTimeout, cancel) // the connection ends with ctx, and the connect with it
	defer late.Stop()
	conn, err := dbus.Connect(address, dbus.WithContext(ctx), dbus.WithSignalHandler(dbus.NewSequentialSignalHandler()))
	if err != nil {
		return nil, fmt.Errorf("connect to the system bus: %w", err)
	}
	l := &login1{conn: conn, cancel: cancel, events: make(chan Event), log: log}
	signals := make(chan *dbus.Signal)
	conn.Signal(signals)
	go func() {
		defer close(l.events)
		_ = panics.Contain(log, "logind", func() error { // which logs it
			l.follow(ctx, signals)
			return nil
		})
	}()
	if err := l.subscribe(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return l, nil
}

// subscribe asks for the signals, before anything is asked for that they may change.
func (l *login1) subscribe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := l.conn.AddMatchSignalContext(ctx, dbus.WithMatchSender(busName), dbus.WithMatchInterface(busName),
		dbus.WithMatchMember(ownerSignal), dbus.WithMatchArg(0, loginName))
	if err == nil {
		err = l.conn.AddMatchSignalContext(ctx, dbus.WithMatchSender(loginName), dbus.WithMatchInterface(loginInterface),
			dbus.WithMatchMember(prepareSignal), dbus.WithMatchObjectPath(loginPath))
	}
	if err != nil {
		return fmt.Errorf("ask for the signals of logind: %w", err)
	}
	if _, err := l.Preparing(ctx); err != nil { // which starts logind where it does not run
		return err
	}
	var owner string
	if err := l.conn.BusObject().CallWithContext(ctx, busName+".GetNameOwner", 0, loginName).Store(&owner); err != nil {
		return fmt.Errorf("ask who is logind: %w", err)
	}
	l.owner.CompareAndSwap(nil, &owner) // unless a signal has said it since
	return nil
}

// follow turns signals into events, until the connection is lost.
func (l *login1) follow(ctx context.Context, signals <-chan *dbus.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case signal, open := <-signals:
			if !open {
				return
			}
			event, ok := l.read(signal)
			if !ok {
				continue
			}
			select {
			case <-ctx.Done():
				return
			case l.events <- event:
			}
		}
	}
}

// read is what a signal means; ok is false for one that means nothing here. Every user of the
// node may send any signal to any connection: only those of logind count.
func (l *login1) read(signal *dbus.Signal) (event Event, ok bool) {
	switch {
	case signal.Sender == busName && signal.Name == busName+"."+ownerSignal:
		return Restarted, l.takeOwner(signal.Body)
	case signal.Name != loginInterface+"."+prepareSignal || signal.Path != loginPath || len(signal.Body) != 1:
		return 0, false
	}
	if owner := l.owner.Load(); owner == nil || signal.Sender != *owner {
		l.log.Info("Ignored a signal that claims a shutdown of the node and is not logind's", "sender", signal.Sender)
		return 0, false
	}
	begins, ok := signal.Body[0].(bool)
	if begins {
		return Shutdown, ok
	}
	return Cancelled, ok
}

// takeOwner notes who logind is from now on, and reports whether there is one.
func (l *login1) takeOwner(body []any) bool {
	if len(body) != 3 || body[0] != loginName {
		return false
	}
	owner, ok := body[2].(string)
	l.owner.Store(&owner)
	return ok && owner != ""
}

// Events implements Logind.
func (l *login1) Events() <-chan Event { return l.events }

// Close implements Logind.
func (l *login1) Close() error {
	l.cancel()
	err := l.conn.Close()
	for range l.events { // until what follows the signals has ended
	}
	if errors.Is(err, dbus.ErrClosed) {
		return nil
	}
	return err
}

// InhibitDelay implements Logind.
func (l *login1) InhibitDelay(ctx context.Context) (time.Duration, error) {
	var micro uint64
	err := l.property(ctx, "InhibitDelayMaxUSec", &micro)
	return time.Duration(min(micro, uint64(time.Duration(1<<63-1)/time.Microsecond))) * time.Microsecond, err
}

// Preparing implements Logind.
func (l *login1) Preparing(ctx context.Context) (preparing bool, err error) {
	err = l.property(ctx, "PreparingForShutdown", &preparing)
	return preparing, err
}

func (l *login1) property(ctx context.Context, name string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var value dbus.Variant
	call := l.conn.Object(loginName, loginPath).CallWithContext(ctx, busName+".Properties.Get", 0, loginInterface, name)
	if err := call.Store(&value); err != nil {
		return fmt.Errorf("ask logind for %s: %w", name, err)
	}
	if err := value.Store(into); err != nil {
		return fmt.Errorf("read %s of logind: %w", name, err)
	}
	return nil
}

// Inhibit implements Logind.
func (l *login1) Inhibit(ctx context.Context) (io.Closer, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var fd dbus.UnixFD
	err := l.conn.Object(loginName, loginPath).CallWithContext(ctx, loginInterface+".Inhibit", 0,
		"shutdown", "managedworkload", "The shim needs time to end the workloads of the node", "delay").Store(&fd)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "inhibitor lock"), nil
}

// Reload implements Logind: systemd sends it the signal for that.
func (l *login1) Reload(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	const hangUp = int32(1) // SIGHUP
	return l.conn.Object(systemdName, systemdPath).CallWithContext(ctx, systemdInterface+".KillUnit", 0, loginUnit, "all", hangUp).Err
}
