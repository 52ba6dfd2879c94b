// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package localstack

import (
	"cmp"
	"context"
	"strconv"
)

const controllerManagerName = "kube-controller-manager"

// controllerManager is impersonated like the manager; kube-apiserver's own RBAC
// has a role for it.
var controllerManager = identity{
	name: controllerManagerName, as: "system:kube-controller-manager", asGroups: []string{"system:authenticated"},
}

// startControllerManager starts kube-controller-manager.
func (s *Stack) startControllerManager(ctx context.Context) error {
	ports, err := freePorts(1)
	if err != nil {
		return err
	}
	kubeconfig := s.layout.kubeconfig(controllerManager)
	s.ControllerManager = s.component(controllerManagerName, s.tools.controllerManager, s.secureReady(ports[0]),
		"--kubeconfig="+kubeconfig,
		"--authentication-kubeconfig="+s.Kubeconfig(), "--authorization-kubeconfig="+s.Kubeconfig(),
		"--bind-address=127.0.0.1", "--secure-port="+strconv.Itoa(ports[0]),
		"--cert-dir="+s.layout.pki(controllerManagerName),
		"--leader-elect=false",
		"--controllers="+cmp.Or(s.opts.Controllers, "*"),
		"--root-ca-file="+s.layout.pki("ca.crt"),
		"--service-account-private-key-file="+s.layout.pki("tokens.key"),
		"--use-service-account-credentials=true",
	)
	s.progress("Starting kube-controller-manager")
	return s.ControllerManager.Start(ctx)
}
