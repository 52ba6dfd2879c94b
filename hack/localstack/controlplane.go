// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package localstack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/client-go/kubernetes"
)

// startControlPlane starts etcd and kube-apiserver.
func (s *Stack) startControlPlane(ctx context.Context) error {
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	client, peer := "http://"+loopback(ports[0]), "http://"+loopback(ports[1])
	s.Etcd = s.component("etcd", s.tools.etcd, httpReady(client+"/readyz"),
		"--name=localstack",
		"--data-dir="+s.layout.etcdData(),
		"--listen-client-urls="+client, "--advertise-client-urls="+client,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=localstack="+peer,
		"--unsafe-no-fsync",
	)
	address, port, services := "127.0.0.1", strconv.Itoa(ports[2]), "10.0.0.0/24"
	if s.opts.ForPods {
		subnet, err := s.addServiceNetwork(ctx)
		if err != nil {
			return fmt.Errorf("address for kube-apiserver's Service: %w", err)
		}
		address, port, services = s.serviceAddress, "443", subnet.String()
	}
	server := "https://" + net.JoinHostPort(address, port)
	if err := s.writePKI(server, net.ParseIP(address)); err != nil {
		return fmt.Errorf("certificates: %w", err)
	}
	if err := s.loadRESTConfig(); err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	s.APIServer = s.component("kube-apiserver", s.tools.apiserver, s.apiServerReady, append([]string{
		"--etcd-servers=" + client,
		"--bind-address=" + address, "--secure-port=" + port,
		// There is no kubernetes service to keep, and loopback would be refused for it.
		"--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
		"--cert-dir=" + s.layout.pki(""),
		"--tls-cert-file=" + s.layout.pki("server.crt"), "--tls-private-key-file=" + s.layout.pki("server.key"),
		"--client-ca-file=" + s.layout.pki("ca.crt"),
		"--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + s.layout.pki("tokens.key"),
		"--service-account-signing-key-file=" + s.layout.pki("tokens.key"),
		"--service-cluster-ip-range=" + services,
		"--allow-privileged=true",
		"--profiling=false",
	}, s.podFlags()...)...)
	s.progress("Starting etcd")
	if err := s.Etcd.Start(ctx); err != nil {
		return err
	}
	s.progress("Starting kube-apiserver: about 10 seconds")
	return s.APIServer.Start(ctx)
}

func (s *Stack) component(name, path string, ready func(context.Context) error, args ...string) *Component {
	return &Component{name: name, path: path, args: args, ready: ready, stack: s}
}

// apiServerReady asks for a namespace too: readiness says nothing about those
// that kube-apiserver makes by itself.
func (s *Stack) apiServerReady(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(s.api)
	if err != nil {
		return err
	}
	_, err = client.RESTClient().Get().AbsPath("/readyz").Timeout(5 * time.Second).DoRaw(ctx)
	if err != nil {
		return err
	}
	for _, namespace := range []string{"default", "kube-system"} {
		err := client.CoreV1().RESTClient().Get().Resource("namespaces").Name(namespace).Do(ctx).Error()
		if err != nil {
			return err
		}
	}
	return nil
}

// httpReady waits for an answer of 200.
func httpReady(url string) func(context.Context) error {
	return func(ctx context.Context) (err error) {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
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

// applyConfig applies what a user would apply, and waits for the CRDs.
func (s *Stack) applyConfig(ctx context.Context) error {
	config := s.opts.Config
	if config == "" {
		config = filepath.Join(s.tools.root, "config", "default")
	}
	if _, err := os.Stat(config); err != nil {
		return fmt.Errorf("configuration to apply: %w", err)
	}
	s.progress("Applying %s", config)
	if _, err := s.Kubectl(ctx, "apply", "-k", config); err != nil {
		return err
	}
	_, err := s.Kubectl(ctx, "wait", "--for=condition=Established", "--timeout=60s",
		"crd/managedworkloads.managedworkload.dev", "crd/nodeworkloads.managedworkload.dev")
	return err
}

// freePorts finds ports on the loopback interface that are not in use. They
// are all held until the last one is found, so that they differ.
func freePorts(n int) (ports []int, err error) {
	for range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer listener.Close() //nolint:errcheck // only to find a port
		address, ok := listener.Addr().(*net.TCPAddr)
		if !ok {
			return nil, fmt.Errorf("no TCP address: %s", listener.Addr())
		}
		ports = append(ports, address.Port)
	}
	return ports, nil
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
