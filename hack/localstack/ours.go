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
	s.opts.Binary = s.layout.binary("managedworkload")
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
	if s.webhookPort != 0 {
		args = append(args, s.webhookArgs()...)
	} else {
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
		if s.opts.StaticDir != "" { // whoever runs this may have a cluster
			n.Shim.env = []string{"KUBECONFIG=", "KUBERNETES_SERVICE_HOST=", "HOME=" + s.layout.dir}
		}
	}
	s.progress("Starting the shim")
	return s.onNodes(func(n *Node) error { return n.Shim.Start(ctx) })
}

// shimName is the component of the first node's shim.
const shimName = "shim"

func (n *Node) shimArgs() []string {
	args := []string{
		"shim",
		"--node-name=" + n.name,
		"--runtime-endpoint=" + n.CRIEndpoint(),
		"--state-dir=" + n.ShimStateDir(),
		"--pod-log-dir=" + n.PodLogDir(),
		"--cgroup-parent=" + n.CgroupParent(),
		"--metrics-bind-address=" + n.ShimMetrics,
		"--health-probe-bind-address=" + n.ShimHealth,
	}
	if dir := n.stack.opts.StaticDir; dir != "" {
		args = append(args, "--static-dir="+dir)
	} else {
		args = append(args, "--kubeconfig="+n.ShimKubeconfig(), "--namespace="+SystemNamespace, "--register-node")
	}
	// Images that were imported cannot be pulled again.
	args = append(args, "--container-log-link-dir="+n.LogLinks(), "--image-gc-high-threshold=100")
	// Tests do not wait for as long as a node's administrator may want.
	args = append(args, "--min-restart-backoff=0")
	// What else fills the machine ends no workload.
	args = append(args, "--eviction-hard=memory.available<0%")
	return append(args, n.stack.opts.ShimArgs...)
}

func (n *Node) stopShim(ctx context.Context) error {
	if n.Shim == nil {
		return nil
	}
	return n.Shim.Stop(ctx)
}
