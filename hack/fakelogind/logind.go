// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fakelogind

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"
)

// Names of logind and systemd on a bus.
const (
	loginName        = "org.freedesktop.login1"
	loginPath        = dbus.ObjectPath("/org/freedesktop/login1")
	loginInterface   = "org.freedesktop.login1.Manager"
	systemdName      = "org.freedesktop.systemd1"
	systemdPath      = dbus.ObjectPath("/org/freedesktop/systemd1")
	systemdInterface = "org.freedesktop.systemd1.Manager"
)

// Logind is a logind that does what a test says.
type Logind struct {
	conn *dbus.Conn
	// Configured returns the delay that a logind which reads its configuration takes; nil
	// leaves it as it is.
	configured func() time.Duration

	mu        sync.Mutex
	delay     time.Duration
	preparing bool
	taken     []string
	held      map[*os.File]bool
	// sent are the ends of locks by the number of the message that carries them.
	sent map[uint32]int
	// changed is closed and replaced when a lock is taken or released.
	changed chan struct{}
}

// Options of a Logind.
type Options struct {
	// Delay is InhibitDelayMaxSec.
	Delay time.Duration
	// Configured returns what Delay becomes when the configuration is read.
	Configured func() time.Duration
}

// Start makes a logind on a bus.
func (b *Bus) Start(o Options) (*Logind, error) {
	l := &Logind{delay: o.Delay, configured: o.Configured, held: map[*os.File]bool{}, sent: map[uint32]int{}, changed: make(chan struct{})}
	conn, err := dbus.Connect(b.Address(), dbus.WithOutgoingInterceptor(l.sending), dbus.WithSerialGenerator(&serials{sent: l.wasSent}))
	if err != nil {
		return nil, fmt.Errorf("connect to the bus: %w", err)
	}
	l.conn = conn
	methods := map[string]any{"Inhibit": l.inhibit}
	if err := conn.ExportMethodTable(methods, loginPath, loginInterface); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if err := conn.ExportMethodTable(map[string]any{"Get": l.get}, loginPath, "org.freedesktop.DBus.Properties"); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if err := conn.ExportMethodTable(map[string]any{"KillUnit": l.killUnit}, systemdPath, systemdInterface); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	for _, name := range []string{systemdName, loginName} {
		if _, err := conn.RequestName(name, dbus.NameFlagDoNotQueue); err != nil {
			return nil, errors.Join(fmt.Errorf("take the name %s: %w", name, err), conn.Close())
		}
	}
	return l, nil
}

// Stop ends it; its locks stay with those who have them.
func (l *Logind) Stop() error { return l.conn.Close() }

// Prepare says that the node shuts down, or does not after all, as logind does.
func (l *Logind) Prepare(shutdown bool) error {
	l.mu.Lock()
	l.preparing = shutdown
	l.mu.Unlock()
	return l.conn.Emit(loginPath, loginInterface+".PrepareForShutdown", shutdown)
}

// Locks are the locks that are held now, and how often one was ever taken.
func (l *Logind) Locks() (held, taken int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.held), len(l.taken)
}

// Taken is what each lock is for, in logind's words.
func (l *Logind) Taken() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.taken...)
}

// Changed is closed when the next lock is taken or released.
func (l *Logind) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// change wakes those who wait for a change; l.mu is held.
func (l *Logind) change() {
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *Logind) get(of, name string) (dbus.Variant, *dbus.Error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch name {
	case "InhibitDelayMaxUSec":
		return dbus.MakeVariant(uint64(l.delay.Microseconds())), nil
	case "PreparingForShutdown":
		return dbus.MakeVariant(l.preparing), nil
	}
	return dbus.Variant{}, dbus.MakeFailedError(fmt.Errorf("%s has no %s", of, name))
}

// killUnit takes the one signal by which logind reads its configuration.
func (l *Logind) killUnit(unit, who string, signal int32) *dbus.Error {
	if unit != "systemd-logind.service" || who != "all" || signal != int32(unix.SIGHUP) {
		return dbus.MakeFailedError(fmt.Errorf("signal %d for %s of %s", signal, who, unit))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.configured != nil {
		l.delay = l.configured()
	}
	return nil
}

// inhibit gives one end of a pipe away: when the other one ends, the lock is released.
func (l *Logind) inhibit(what, who, why, mode string) (dbus.UnixFD, *dbus.Error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.preparing {
		return -1, dbus.NewError("org.freedesktop.login1.OperationInProgress", []any{"The operation inhibition has been requested for is already running"})
	}
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return -1, dbus.MakeFailedError(err)
	}
	lock := os.NewFile(uintptr(ends[0]), "lock")
	l.held[lock] = true
	l.taken = append(l.taken, fmt.Sprintf("%s %s %s: %s", mode, what, who, why))
	l.change()
	go l.awaitRelease(lock)
	return dbus.UnixFD(ends[1]), nil
}

func (l *Logind) awaitRelease(lock *os.File) {
	_, _ = io.Copy(io.Discard, lock)
	_ = lock.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, lock)
	l.change()
}

// sending notes which message carries the end of a lock.
func (l *Logind) sending(m *dbus.Message) {
	if m.Type != dbus.TypeMethodReply || len(m.Body) != 1 {
		return
	}
	if end, ok := m.Body[0].(dbus.UnixFD); ok {
		l.mu.Lock()
		l.sent[m.Serial()] = int(end)
		l.mu.Unlock()
	}
}

// wasSent closes an end of a lock that someone else has now.
func (l *Logind) wasSent(serial uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if end, ok := l.sent[serial]; ok {
		delete(l.sent, serial)
		_ = unix.Close(end)
	}
}

// serials numbers messages.
type serials struct {
	last atomic.Uint32
	sent func(uint32)
}

// GetSerial implements dbus.SerialGenerator.
func (s *serials) GetSerial() uint32 { return s.last.Add(1) }

// RetireSerial implements dbus.SerialGenerator: a reply was sent, or a call answered.
func (s *serials) RetireSerial(serial uint32) { s.sent(serial) }
