// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"net"
	"strconv"

	"github.com/managedworkload/managedworkload/runtime/httpaction"
)

// probeTCP succeeds when a connection can be made. (pkg/probe/tcp/tcp.go)
func probeTCP(ctx context.Context, t target) (outcome, error) {
	number, err := httpaction.Port(t.spec.TCPSocket.Port, t.container)
	if err != nil {
		return outcome{state: unknown}, err
	}
	host := t.spec.TCPSocket.Host
	if host == "" {
		host = t.ip
	}
	conn, err := dialer(t.timeout()).DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(number)))
	if err != nil {
		return outcome{state: failed, output: err.Error(), brief: brief(err)}, nil
	}
	_ = conn.Close() // it was made: that is all the probe asks
	return outcome{state: succeeded}, nil
}
