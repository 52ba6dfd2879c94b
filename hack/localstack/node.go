// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package localstack

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Node is a node of the stack for a shim: with a containerd, a pod network, cgroups,
// folders and an identity of its own. Containerd and Shim are nil if they were left out.
type Node struct {
	Containerd, Shim *Component

	// ShimMetrics and ShimHealth are the addresses (host:port) of the shim's metrics
	// and health checks.
	ShimMetrics, ShimHealth string

	name   string
	number int // from 1
	stack  *Stack
	layout layout
	// account is the service account of the shim.
	account string
}

// makeNodes describes the nodes for shims; nothing of them is there yet.
func (s *Stack) makeNodes() {
	s.Nodes = []*Node{{name: s.opts.NodeName, number: 1, stack: s, layout: s.layout}}
	if s.opts.HostRuntime != "" {
		s.Nodes[0].layout = s.layout.hostNode()
	}
	for i := 2; i <= s.opts.Nodes; i++ {
		s.Nodes = append(s.Nodes, &Node{name: nodeName(s.opts.NodeName, i), number: i, stack: s, layout: s.layout.further(i)})
	}
	if s.opts.Nodes > 1 {
		s.Nodes[0].name = nodeName(s.opts.NodeName, 1)
	}
	for _, n := range s.Nodes {
		n.account = shimAccount
	}
	s.Node = s.Nodes[0]
}

func nodeName(base string, number int) string { return fmt.Sprintf("%s-%d", base, number) }

// ofNode names what a node has of its own: that of the first has the plain name.
func ofNode(name string, number int) string {
	if number == 1 {
		return name
	}
	return nodeName(name, number)
}

// further is the layout of the node of a number from 2 on.
func (l layout) further(number int) layout { return l.node(fmt.Sprintf("n%d", number)) }

// shimNodes are the layouts of the nodes for shims, but for one on the host.
func (l layout) shimNodes(count int) []layout {
	nodes := []layout{l}
	for i := 2; i <= count; i++ {
		nodes = append(nodes, l.further(i))
	}
	return nodes
}

// onNodes does something for all nodes at once.
func (s *Stack) onNodes(do func(*Node) error) error {
	return atOnce(s.Nodes, func(n *Node) error {
		err := do(n)
		if err != nil && len(s.Nodes) > 1 {
			return fmt.Errorf("node %s: %w", n.name, err)
		}
		return err
	})
}

// NodeName is the name of the node.
func (n *Node) NodeName() string { return n.name }

// CRIEndpoint is that of the node's containerd, as a shim takes it.
func (n *Node) CRIEndpoint() string { return "unix://" + n.layout.containerdSocket() }

// CRI connects to the node's containerd, for tests that look at or act on containers
// past the shim. The caller closes it.
func (n *Node) CRI() (*CRI, error) { return dialCRI(n.layout) }

// ShimKubeconfig is the path of the shim's kubeconfig. It names a file with a token, which
// IssueToken writes.
func (n *Node) ShimKubeconfig() string { return n.stack.layout.kubeconfig(n.shimIdentity()) }

// ShimStateDir is where the shim keeps its state and its pods' folders.
func (n *Node) ShimStateDir() string { return n.layout.shimState() }

// LogLinks holds links to the logs of the containers.
func (n *Node) LogLinks() string { return n.layout.logLinks() }

// PodLogDir holds the containers' logs.
func (n *Node) PodLogDir() string {
	if n.number == 1 && n.stack.opts.PodLogDir != "" {
		return n.stack.opts.PodLogDir
	}
	return n.layout.podLogs()
}

// CgroupParent is the group of cgroups that the shim's containers live under.
func (n *Node) CgroupParent() string { return n.layout.cgroupParent() }

// CgroupBelow is a cgroup inside the node's, as the CRI takes it for a pod.
func (n *Node) CgroupBelow(name string) string {
	parent := n.CgroupParent()
	if unit, isSlice := strings.CutSuffix(filepath.Base(parent), ".slice"); isSlice {
		return filepath.Join(parent, unit+"-"+strings.ReplaceAll(name, "-", "_")+".slice")
	}
	return filepath.Join(parent, name)
}
