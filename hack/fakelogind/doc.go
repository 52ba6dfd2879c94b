// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fakelogind is a system bus of its own with a logind that tests command: a real
// dbus-daemon on a socket in a folder, and on it org.freedesktop.login1 and as much of
// org.freedesktop.systemd1 as makes logind read its configuration.
package fakelogind
