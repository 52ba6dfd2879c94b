// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shutdown

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/godbus/dbus/v5"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// On a machine with systemd, dbus and logind a shutdown waits for the workloads. It really shuts
// the machine down, which has to be one for this test: make test-logind.
func TestRealLogind(t *testing.T) {
	if os.Getenv("MW_LOGIND") == "" {
		t.Skip("this shuts the machine down: make test-logind")
	}
	conn, err := dbus.ConnectSystemBus()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	login := conn.Object(loginName, loginPath)
	ours := func() bool {
		t.Helper()
		var locks []struct {
			What, Who, Why, Mode string
			UID, PID             uint32
		}
		if err := login.Call(loginInterface+".ListInhibitors", 0).Store(&locks); err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(locks, func(l struct {
			What, Who, Why, Mode string
			UID, PID             uint32
		}) bool {
			return l.Who == "managedworkload" && l.What == "shutdown" && l.Mode == "delay"
		})
	}
	await := func(what string, done func() bool) {
		t.Helper()
		for late := time.Now().Add(2 * patience); !done(); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(late) {
				t.Fatal("waited in vain until " + what)
			}
		}
	}
	n := &node{began: time.Now(), active: []*corev1.Pod{workload("low", 0, 7)}, takes: map[types.UID]time.Duration{"low": 5 * time.Second}}
	m := New(Config{
		Periods: plan.ShutdownPeriods(2*time.Minute, 0), Workloads: n, Dial: Dial("unix:path=/run/dbus/system_bus_socket", logr.Discard()),
		Changed: func() {}, Event: func(string, string) {}, Log: logr.Discard(),
	})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = m.Run(ctx) })
	defer func() { cancel(); wg.Wait() }()
	await("the lock is held", ours)
	var delay dbus.Variant
	if err := login.Call(busName+".Properties.Get", 0, loginInterface, "InhibitDelayMaxUSec").Store(&delay); err != nil || delay.Value() != uint64(120_000_000) {
		t.Errorf("InhibitDelayMaxUSec is %v, error %v", delay, err)
	}
	if data, err := os.ReadFile("/etc/systemd/logind.conf.d/00-managedworkload.conf"); err != nil || !strings.Contains(string(data), "InhibitDelayMaxSec=120") {
		t.Errorf("logind's file: %q %v", data, err)
	}
	if err := login.Call(loginInterface+".PowerOff", 0, false).Err; err != nil {
		t.Fatal(err)
	}
	await("pods are refused", func() bool { return refuses(m) })
	if !ours() {
		t.Error("the lock is gone before the workload is")
	}
	await("the workload has ended and the lock is gone", func() bool { return len(n.Active()) == 0 && !ours() })
}
