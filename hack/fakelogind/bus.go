// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fakelogind

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// Bus is a dbus-daemon.
type Bus struct {
	dir    string
	daemon *exec.Cmd
}

// Available reports whether there is a dbus-daemon; hack/tools/debian.sh dbus installs one.
func Available() bool {
	_, err := exec.LookPath("dbus-daemon")
	return err == nil
}

// configuration lets everyone own every name and send everything.
const configuration = `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <listen>unix:path=%s</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow user="*"/>
    <allow own="*"/>
    <allow send_destination="*"/>
    <allow send_type="signal"/>
    <allow receive_sender="*"/>
  </policy>
</busconfig>
`

// StartBus starts a bus whose socket is in a folder with a short path.
func StartBus(dir string) (*Bus, error) {
	b := &Bus{dir: dir}
	if err := os.WriteFile(b.configFile(), fmt.Appendf(nil, configuration, b.socket()), 0o600); err != nil {
		return nil, fmt.Errorf("configure the bus: %w", err)
	}
	return b, b.start()
}

func (b *Bus) configFile() string { return filepath.Join(b.dir, "bus.conf") }
func (b *Bus) socket() string     { return filepath.Join(b.dir, "bus") }

// Address is that of the bus.
func (b *Bus) Address() string { return "unix:path=" + b.socket() }

// start returns when the bus takes connections.
func (b *Bus) start() error {
	if err := os.Remove(b.socket()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the socket of the bus: %w", err)
	}
	b.daemon = exec.Command("dbus-daemon", "--config-file="+b.configFile(), "--nofork", "--nopidfile", "--print-address")
	b.daemon.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	b.daemon.Stderr = os.Stderr
	out, err := b.daemon.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start the bus: %w", err)
	}
	if err := b.daemon.Start(); err != nil {
		return fmt.Errorf("start the bus: %w", err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return errors.Join(fmt.Errorf("the bus does not start: %w", err), b.Stop())
	}
	return nil
}

// Stop ends the bus, and with it all its connections.
func (b *Bus) Stop() error {
	if err := b.daemon.Process.Kill(); err != nil {
		return fmt.Errorf("stop the bus: %w", err)
	}
	_ = b.daemon.Wait() // which says that it was killed
	return nil
}

// Restart ends the bus and starts it again at the same address.
func (b *Bus) Restart() error {
	if err := b.Stop(); err != nil {
		return err
	}
	return b.start()
}
