// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shutdown

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/godbus/dbus/v5"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/hack/fakelogind"
	"github.com/managedworkload/managedworkload/runtime/hostfs"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

const patience = time.Minute

// stage is a real bus with a logind that the test commands, and a manager on it.
type stage struct {
	t       *testing.T
	bus     *fakelogind.Bus
	logind  *fakelogind.Logind
	root    string
	manager *Manager
	changes chan struct{}
}

// idle is a node without workloads.
type idle struct{}

func (idle) Active() []*corev1.Pod                      { return nil }
func (idle) Terminate(types.UID, plan.Termination) bool { return false }

func newStage(t *testing.T, options fakelogind.Options) *stage {
	t.Helper()
	if testing.Short() || !fakelogind.Available() {
		t.Skip("this needs a dbus-daemon: hack/tools/debian.sh dbus")
	}
	dir, err := os.MkdirTemp("", "mw-bus-") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &stage{t: t, root: t.TempDir(), changes: make(chan struct{}, 100)}
	if s.bus, err = fakelogind.StartBus(dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.bus.Stop() })
	s.start(options)
	return s
}

// start starts a logind, in place of the one before.
func (s *stage) start(options fakelogind.Options) {
	s.t.Helper()
	var err error
	if s.logind, err = s.bus.Start(options); err != nil {
		s.t.Fatal(err)
	}
}

// watch runs a manager with a group of a time.
func (s *stage) watch(whole time.Duration) {
	s.manager = New(Config{
		Periods: plan.ShutdownPeriods(whole, 0), Workloads: idle{}, Dial: Dial(s.bus.Address(), logr.Discard()),
		HostRoot: hostfs.Root(s.root), Changed: func() { s.changes <- struct{}{} }, Event: func(string, string) {}, Log: logr.Discard(),
	})
	ctx, cancel := context.WithCancel(s.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.manager.Run(ctx) })
	s.t.Cleanup(func() { cancel(); wg.Wait() })
}

// awaitLocks waits until so many locks are held, and as many were ever taken as it says.
func (s *stage) awaitLocks(held, taken int) {
	s.t.Helper()
	s.awaitLocksOf(s.logind, held, taken)
}

// awaitLocksOf is awaitLocks for any logind.
func (s *stage) awaitLocksOf(logind *fakelogind.Logind, held, taken int) {
	s.t.Helper()
	late := time.After(patience)
	for {
		changed := logind.Changed()
		nowHeld, nowTaken := logind.Locks()
		if nowHeld == held && nowTaken == taken {
			return
		}
		select {
		case <-changed:
		case <-late:
			s.t.Fatalf("%d locks are held and %d were taken, want %d and %d", nowHeld, nowTaken, held, taken)
		}
	}
}

// awaitChange waits until a shutdown begins or is cancelled.
func (s *stage) awaitChange(shutdown bool) {
	s.t.Helper()
	select {
	case <-s.changes:
	case <-time.After(patience):
		s.t.Fatal("nothing changed")
	}
	if refuses(s.manager) != shutdown {
		s.t.Fatalf("pods are refused: %t, want %t", !shutdown, shutdown)
	}
}

func (s *stage) prepare(shutdown bool) {
	s.t.Helper()
	if err := s.logind.Prepare(shutdown); err != nil {
		s.t.Fatal(err)
	}
}

// The lock is held until the workloads have ended, and taken again after a cancelled shutdown.
func TestLockOnARealBus(t *testing.T) {
	t.Parallel()
	s := newStage(t, fakelogind.Options{Delay: time.Hour})
	s.watch(time.Second)
	s.awaitLocks(1, 1)
	const want = "delay shutdown managedworkload: The shim needs time to end the workloads of the node"
	if got := s.logind.Taken()[0]; got != want {
		t.Errorf("lock %q, want %q", got, want)
	}
	s.prepare(true)
	s.awaitChange(true)
	s.awaitLocks(0, 1)
	s.prepare(false)
	s.awaitChange(false)
	s.awaitLocks(1, 2)
	if entries, err := os.ReadDir(s.root); err != nil || len(entries) != 0 {
		t.Errorf("a delay that is long enough was configured again: %v %v", entries, err)
	}
}

// effective is the delay that a logind takes that reads its drop-in files: the last name counts.
func effective(t *testing.T, dir string) time.Duration {
	delay := 5 * time.Second
	names, err := filepath.Glob(filepath.Join(dir, "*.conf"))
	if err != nil {
		t.Error(err)
	}
	for _, name := range names { // sorted
		data, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
			continue
		}
		for line := range strings.Lines(string(data)) {
			if key, value, ok := strings.Cut(line, "="); ok && strings.TrimSpace(key) == "InhibitDelayMaxSec" {
				value = strings.TrimSpace(value)
				if value == "5min" {
					value = "300"
				}
				n, err := strconv.Atoi(value)
				if err != nil {
					t.Error(err)
				}
				delay = time.Duration(n) * time.Second
			}
		}
	}
	return delay
}

// logind's delay is raised where it is lower, by a file that hides no larger one of other software: not
// that of a kubelet, now or later.
func TestDelayIsRaised(t *testing.T) {
	t.Parallel()
	const ours, early, late, kubelets = 90 * time.Second, "00-managedworkload.conf", "99-managedworkload.conf", "99-kubelet.conf"
	tests := map[string]struct {
		files map[string]string // the delays that files set before
		// want is our file, and effective what counts then; later what counts once a kubelet sets 300.
		want             string
		effective, later time.Duration
		// blanks: others write them around the sign.
		blanks bool
	}{
		"alone":                             {nil, early, ours, 300 * time.Second, false},
		"beside a kubelet's larger":         {map[string]string{kubelets: "300"}, early, 300 * time.Second, 300 * time.Second, false},
		"beside a kubelet's lower":          {map[string]string{kubelets: "30"}, late, ours, ours, false},
		"beside a person's larger":          {map[string]string{"50-admin.conf": "5min"}, early, 300 * time.Second, 300 * time.Second, false},
		"an earlier shim's":                 {map[string]string{late: "90"}, early, ours, 300 * time.Second, false},
		"an earlier shim's hides a larger":  {map[string]string{late: "90", kubelets: "300"}, early, 300 * time.Second, 300 * time.Second, false},
		"an earlier shim's beside a lower":  {map[string]string{late: "60", kubelets: "30"}, late, ours, ours, false},
		"an earlier shim's beside a person": {map[string]string{late: "60", "50-admin.conf": "5min"}, early, 300 * time.Second, 300 * time.Second, false},
		"beside a lower with blanks":        {map[string]string{kubelets: "30"}, late, ours, ours, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s *stage
			dir := func() string { return filepath.Join(s.root, "etc/systemd/logind.conf.d") }
			s = newStage(t, fakelogind.Options{Delay: 5 * time.Second, Configured: func() time.Duration { return effective(t, dir()) }})
			if err := os.MkdirAll(dir(), 0o750); err != nil {
				t.Fatal(err)
			}
			blank := ""
			if tt.blanks {
				blank = " "
			}
			set := func(name, delay string) {
				if err := os.WriteFile(filepath.Join(dir(), name), []byte("[Login]\nInhibitDelayMaxSec"+blank+"="+blank+delay+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for name, delay := range tt.files {
				set(name, delay)
			}
			s.watch(ours)
			s.awaitLocks(1, 1)
			if got := effective(t, dir()); got != tt.effective {
				t.Errorf("a delay of %v counts, want %v", got, tt.effective)
			}
			if info, err := os.Stat(filepath.Join(dir(), tt.want)); err != nil || info.Mode().Perm() != 0o644 {
				t.Errorf("logind's file: %v %v", info, err)
			}
			if _, err := os.Stat(filepath.Join(dir(), late)); tt.want == early && err == nil {
				t.Error("a file of ours comes last and may hide another's")
			}
			set(kubelets, "300")
			if got := effective(t, dir()); got != tt.later {
				t.Errorf("once a kubelet sets 5 min, %v count, want %v", got, tt.later)
			}
		})
	}
}

// What the shim does not see may lower the delay, too: then its file comes last.
func TestDelayThatIsLoweredUnseen(t *testing.T) {
	t.Parallel()
	var s *stage
	last := func() string { return filepath.Join(s.root, dropInDir, lastDropIn) }
	s = newStage(t, fakelogind.Options{Delay: 5 * time.Second, Configured: func() time.Duration {
		if _, err := os.Stat(last()); err != nil {
			return 30 * time.Second
		}
		return 90 * time.Second
	}})
	s.watch(90 * time.Second)
	s.awaitLocks(1, 1)
	if _, err := os.Stat(last()); err != nil {
		t.Error(err)
	}
}

// A delay that cannot be raised does not keep the lock from being held.
func TestDelayThatStays(t *testing.T) {
	t.Parallel()
	s := newStage(t, fakelogind.Options{Delay: 5 * time.Second})
	s.watch(90 * time.Second)
	s.awaitLocks(1, 1)
}

// Whoever else is on the bus and claims that the node shuts down ends nothing, neither to all
// nor to the shim alone.
func TestForeignSignal(t *testing.T) {
	t.Parallel()
	s := newStage(t, fakelogind.Options{Delay: time.Hour})
	s.watch(time.Second)
	s.awaitLocks(1, 1)
	other, err := dbus.Connect(s.bus.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	if err := other.Emit(loginPath, loginInterface+"."+prepareSignal, true); err != nil {
		t.Fatal(err)
	}
	var names []string
	if err := other.BusObject().Call(busName+".ListNames", 0).Store(&names); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !strings.HasPrefix(name, ":") {
			continue
		}
		m := &dbus.Message{Type: dbus.TypeSignal, Headers: map[dbus.HeaderField]dbus.Variant{
			dbus.FieldPath: dbus.MakeVariant(loginPath), dbus.FieldInterface: dbus.MakeVariant(loginInterface),
			dbus.FieldMember: dbus.MakeVariant(prepareSignal), dbus.FieldDestination: dbus.MakeVariant(name),
			dbus.FieldSignature: dbus.MakeVariant(dbus.SignatureOf(true)),
		}, Body: []any{true}}
		if call := other.Send(m, nil); call.Err != nil {
			t.Fatal(call.Err)
		}
	}
	if err := other.BusObject().Call(busName+".GetId", 0).Err; err != nil { // all was sent
		t.Fatal(err)
	}
	// What logind says next arrives after it: when the shim has taken another lock for that, it has
	// seen all before.
	s.prepare(false)
	s.awaitLocks(1, 2)
	select {
	case <-s.changes:
		t.Error("the foreign signal changed something")
	default:
	}
}

// A bus or a logind that is restarted ends nothing; then the shutdown is watched for as before.
func TestRestartedBus(t *testing.T) {
	t.Parallel()
	s := newStage(t, fakelogind.Options{Delay: time.Hour})
	s.watch(time.Second)
	s.awaitLocks(1, 1)

	first := s.logind
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	s.start(fakelogind.Options{Delay: time.Hour})
	s.awaitLocks(1, 1)
	if err := s.bus.Restart(); err != nil {
		t.Fatal(err)
	}
	s.start(fakelogind.Options{Delay: time.Hour})
	s.awaitLocks(1, 1)
	s.awaitLocksOf(first, 0, 1) // that of a logind that is gone is let go
	if refuses(s.manager) {
		t.Error("a restart counts as a shutdown")
	}
	s.prepare(true)
	s.awaitChange(true)
	s.awaitLocks(0, 1)
}
