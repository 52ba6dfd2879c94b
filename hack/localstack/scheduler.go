// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package localstack

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

const schedulerName = "kube-scheduler"

// scheduler is impersonated like kube-controller-manager.
var scheduler = identity{
	name: schedulerName, as: "system:kube-scheduler", asGroups: []string{"system:authenticated"},
}

// startScheduler starts kube-scheduler.
func (s *Stack) startScheduler(ctx context.Context) error {
	ports, err := freePorts(1)
	if err != nil {
		return err
	}
	s.Scheduler = s.component(schedulerName, s.tools.scheduler, s.secureReady(ports[0]),
		"--kubeconfig="+s.layout.kubeconfig(scheduler),
		"--authentication-kubeconfig="+s.Kubeconfig(), "--authorization-kubeconfig="+s.Kubeconfig(),
		"--bind-address=127.0.0.1", "--secure-port="+strconv.Itoa(ports[0]),
		"--cert-dir="+s.layout.pki(schedulerName),
		"--leader-elect=false",
	)
	s.progress("Starting kube-scheduler")
	return s.Scheduler.Start(ctx)
}

// secureReady waits for a component of Kubernetes that serves its health with a
// certificate it made for itself.
func (s *Stack) secureReady(port int) func(context.Context) error {
	url := "https://" + loopback(port) + "/healthz"
	insecure := &http.Client{
		Timeout:   5 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, // its own certificate, on the loopback interface
	}
	return func(ctx context.Context) (err error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := insecure.Do(request)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, response.Body.Close()) }()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("GET %s: %s", url, response.Status)
		}
		return nil
	}
}
