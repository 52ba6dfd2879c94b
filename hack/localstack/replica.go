// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package localstack

import (
	"context"
	"fmt"
	"strconv"
)

// apiService is the registration of the manager's aggregated API.
const apiService = "v1alpha1.subresources.managedworkload.dev"

// Replica is another manager beside the first one.
type Replica struct {
	*Component
	port int // of its aggregated API
}

// NewReplica describes another manager with the flags of Options, which should have both
// elect a leader. It has no webhook.
func (s *Stack) NewReplica() (*Replica, error) {
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("manager-%d", ports[0])
	args := append([]string{
		"manager",
		"--kubeconfig=" + s.ManagerKubeconfig(),
		"--namespace=" + SystemNamespace,
		"--metrics-bind-address=" + loopback(ports[0]),
		"--health-probe-bind-address=" + loopback(ports[1]),
		"--webhook-bind-address=0",
		"--subresources-bind-address=" + loopback(ports[2]),
		"--subresources-certificate-dir=" + s.layout.path(name),
	}, s.opts.ManagerArgs...)
	c := s.component(name, s.opts.Binary, httpReady(fmt.Sprintf("http://%s/readyz", loopback(ports[1]))), args...)
	return &Replica{Component: c, port: ports[2]}, nil
}

// RouteObjects has kube-apiserver reach the aggregated API of a replica, or again of the
// first manager if it is nil. That is what a Service does when one of its Pods is gone.
func (s *Stack) RouteObjects(ctx context.Context, to *Replica) error {
	port := s.objectsPort
	if to != nil {
		port = to.port
	}
	_, err := s.Kubectl(ctx, "patch", "apiservice", apiService, "--type=json",
		"-p", `[{"op":"replace","path":"/spec/service/port","value":`+strconv.Itoa(port)+`}]`)
	return err
}
