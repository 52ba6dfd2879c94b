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
	if s.objectsPort != 0 {
		args = append(args, s.objectsArgs()...)
	}
	s.Manager = s.component("manager", s.opts.Binary, httpReady(fmt.Sprintf("http://%s/readyz", s.ManagerHealth)), args...)
	s.progress("Starting the manager")
	return s.Manager.Start(ctx)
}

func (s *Stack) startShims(ctx context.Context) error {
	ports, err := freePorts(2 * len(s.Nodes))
	if err != nil {
		return err
	}
	for i, n := range s.Nodes {
		n.ShimMetrics, n.ShimHealth = loopback(ports[2*i]), loopback(ports[2*i+1])
		n.Shim = s.component(ofNode(shimName, n.number), s.opts.Binary, httpReady(fmt.Sprintf("http://%s/readyz", n.ShimHealth)), n.shimArgs()...)
		if s.serviceAddress != "" {
			n.Shim.env = []string{"KUBERNETES_SERVICE_HOST=" + s.serviceAddress, "KUBERNETES_SERVICE_PORT=443"}
		}
	}
	s.progress("Starting the shim")
	return s.onNodes(func(n *Node) error { return n.Shim.Start(ctx) })
}

// shimName is the component of the first node's shim.
const shimName = "shim"

func (n *Node) shimArgs() []string {
	return append([]string{
		"shim",
		"--kubeconfig=" + n.ShimKubeconfig(),
		"--namespace=" + SystemNamespace,
		"--node-name=" + n.name,
		"--register-node",
		"--runtime-endpoint=" + n.CRIEndpoint(),
		"--state-dir=" + n.ShimStateDir(),
		"--pod-log-dir=" + n.PodLogDir(),
		"--cgroup-parent=" + n.CgroupParent(),
		"--metrics-bind-address=" + n.ShimMetrics,
		"--health-probe-bind-address=" + n.ShimHealth,
		// The disk of the machine is everyone's: how full it is ends nothing here.
		"--eviction-hard=memory.available<0%",
	}, n.stack.opts.ShimArgs...)
}

func (n *Node) stopShim(ctx context.Context) error {
	if n.Shim == nil {
		return nil
	}
	return n.Shim.Stop(ctx)
}
