// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package localstack

import (
	"context"
	"fmt"
	"path/filepath"
)

// prepareOurs finds or builds the managedworkload program.
func (s *Stack) prepareOurs(ctx context.Context) error {
	if s.opts.Binary != "" {
		path, err := filepath.Abs(s.opts.Binary)
		s.opts.Binary = path
		return err
	}
	s.opts.Binary, s.built = s.layout.binary("managedworkload"), true
	return s.buildProgram(ctx, ".", s.opts.Binary)
}

func (s *Stack) startManager(ctx context.Context) error {
	ports, err := freePorts(2)
	if err != nil {
		return err
	}
	s.ManagerMetrics, s.ManagerHealth = loopback(ports[0]), loopback(ports[1])
	args := append([]string{
		"manager",
		"--kubeconfig=" + s.ManagerKubeconfig(),
		"--namespace=" + SystemNamespace,
		"--metrics-bind-address=" + s.ManagerMetrics,
		"--health-probe-bind-address=" + s.ManagerHealth,
	}, s.opts.ManagerArgs...)
	switch {
	case s.webhookPort != 0:
		args = append(args, s.webhookArgs()...)
	case s.built:
		args = append(args, "--webhook-bind-address=0") // what was applied has none
	}
	s.Manager = s.component("manager", s.opts.Binary, httpReady(fmt.Sprintf("http://%s/readyz", s.ManagerHealth)), args...)
	s.progress("Starting the manager")
	return s.Manager.Start(ctx)
}

func (s *Stack) startShim(ctx context.Context) error {
	ports, err := freePorts(2)
	if err != nil {
		return err
	}
	s.ShimMetrics, s.ShimHealth = loopback(ports[0]), loopback(ports[1])
	args := append([]string{
		"shim",
		"--kubeconfig=" + s.ShimKubeconfig(),
		"--namespace=" + SystemNamespace,
		"--node-name=" + s.opts.NodeName,
		"--register-node",
		"--runtime-endpoint=" + s.CRIEndpoint(),
		"--state-dir=" + s.layout.shimState(),
		"--pod-log-dir=" + s.layout.podLogs(),
		"--cgroup-parent=" + s.layout.cgroupParent(),
		"--metrics-bind-address=" + s.ShimMetrics,
		"--health-probe-bind-address=" + s.ShimHealth,
	}, s.opts.ShimArgs...)
	s.Shim = s.component("shim", s.opts.Binary, httpReady(fmt.Sprintf("http://%s/readyz", s.ShimHealth)), args...)
	s.progress("Starting the shim")
	return s.Shim.Start(ctx)
}
