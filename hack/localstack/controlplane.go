// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package localstack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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
		"--authorization-mode=Node,RBAC",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + s.layout.pki("tokens.key"),
		"--service-account-signing-key-file=" + s.layout.pki("tokens.key"),
		"--service-cluster-ip-range=" + services,
		"--allow-privileged=true",
		"--profiling=false",
	}, append(s.podFlags(), s.frontProxyFlags()...)...)...)
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

// withoutKubelet is the component that a node without a kubelet needs, beside config/default.
const withoutKubelet = "../components/nodes-without-kubelet"

// ApplyConfig applies a kustomize folder as a user would whose node has no kubelet: with
// the component for that, if there is one beside it, the Node and its token. Then it waits
// for the CRDs.
func (s *Stack) ApplyConfig(ctx context.Context, folder string) error {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	if _, err := os.Stat(folder); err != nil {
		return fmt.Errorf("configuration to apply: %w", err)
	}
	s.progress("Applying %s", folder)
	o := overlay{base: folder}
	if component := filepath.Join(folder, withoutKubelet); isDir(component) {
		o.components = append(o.components, component)
		for _, n := range s.Nodes {
			n.account = standaloneShimAccount
		}
	}
	if isDir(filepath.Join(folder, webhookFolder)) {
		patches, err := s.WebhookPatches()
		if err != nil {
			return err
		}
		o.patches = append(o.patches, patches...)
		if s.Manager != nil {
			s.Manager.args = append(s.Manager.args, s.webhookArgs()...)
		}
	}
	if component := filepath.Join(folder, objectsComponent); s.opts.WithObjects && isDir(component) {
		o.components = append(o.components, component)
		patches, err := s.ObjectsPatches()
		if err != nil {
			return err
		}
		o.patches = append(o.patches, patches...)
		if s.Manager != nil {
			s.Manager.args = append(s.Manager.args, s.objectsArgs()...)
		}
	}
	if folder, err = o.write(filepath.Join(s.layout.dir, "overlay")); err != nil {
		return fmt.Errorf("write the kustomization: %w", err)
	}
	if _, err := s.Kubectl(ctx, "apply", "-k", folder); err != nil {
		return err
	}
	if err := s.onNodes(func(n *Node) error { return n.IssueToken(ctx) }); err != nil {
		return err
	}
	_, err = s.Kubectl(ctx, "wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
	return err
}

func (s *Stack) applyConfig(ctx context.Context) error {
	return s.ApplyConfig(ctx, cmp.Or(s.opts.Config, filepath.Join(s.tools.root, "config", "default")))
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// Ports of a stack lie below those that kernels give to outgoing connections and to whoever
// asks for any port: one of these may be taken again before its program listens.
const firstPort, lastPort = 15000, 32000

// freePorts finds ports on the loopback interface that are not in use. They
// are all held until the last one is found, so that they differ.
func freePorts(n int) (ports []int, err error) {
	for tries := 0; len(ports) < n; tries++ {
		port := firstPort + rand.IntN(lastPort-firstPort)
		listener, err := net.Listen("tcp", loopback(port))
		if err != nil {
			if tries < 100 {
				continue
			}
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer listener.Close() //nolint:errcheck // only to find a port
		ports = append(ports, port)
	}
	return ports, nil
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
