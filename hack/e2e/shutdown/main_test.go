// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shutdown tests how a node ends what it runs: when it shuts down, by a logind of its own
// on a bus of its own, and when it is drained. Its tests run one after the other.
package shutdown

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/managedworkload/managedworkload/hack/e2e/harness"
	"github.com/managedworkload/managedworkload/hack/fakelogind"
	"github.com/managedworkload/managedworkload/hack/localstack"
)

var (
	env    *harness.Env
	logind *fakelogind.Logind
)

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if os.Geteuid() != 0 || !fakelogind.Available() {
		fmt.Println("skipped: this needs root and a dbus-daemon: hack/tools/debian.sh dbus")
		return 0
	}
	dir, err := os.MkdirTemp("", "mw-bus-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	bus, err := fakelogind.StartBus(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = bus.Stop() }()
	// A delay that is long enough: nothing is written to this machine's configuration.
	if logind, err = bus.Start(fakelogind.Options{Delay: time.Hour}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := os.Setenv("DBUS_SYSTEM_BUS_ADDRESS", bus.Address()); err != nil { // the shim inherits it
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return harness.Run(m, &env, localstack.Options{ShimArgs: []string{
		"--shutdown-grace-period=50s", "--shutdown-grace-period-critical-pods=20s",
	}}, harness.BuildPlugin)
}
