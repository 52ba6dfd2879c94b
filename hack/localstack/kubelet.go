// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package localstack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"
)

const (
	// DefaultKubeletNodeName is the kubelet's node unless Options say otherwise.
	DefaultKubeletNodeName = "kubelet"

	kubeletName           = "kubelet"
	kubeletContainerdName = "kubelet-containerd"
)

// kubeletNode is the layout of the kubelet's node.
func (l layout) kubeletNode() layout { return l.node("k") }

func (l layout) kubeletRoot() string   { return l.path("kubelet") }
func (l layout) kubeletConfig() string { return l.path("kubelet.yaml") }

// startKubelet starts a containerd and a kubelet on it, and waits until the node
// is ready.
func (s *Stack) startKubelet(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return errors.New("the kubelet needs root")
	}
	if err := refuseSecondKubelet(); err != nil {
		return err
	}
	node := s.layout.kubeletNode()
	if err := errors.Join(node.create(), os.MkdirAll(node.kubeletRoot(), 0o755)); err != nil {
		return err
	}
	if err := rememberHost(node); err != nil {
		return fmt.Errorf("remember what the kubelet changes: %w", err)
	}
	s.KubeletContainerd = containerdComponent(s, kubeletContainerdName, node)
	if err := s.prepareImages(ctx); err != nil {
		return err
	}
	s.progress("Starting the kubelet's containerd")
	if err := s.runContainerd(ctx, s.KubeletContainerd, node); err != nil {
		return err
	}
	if err := makeCgroup(node.cgroupParent()); err != nil {
		return fmt.Errorf("make the kubelet's cgroup: %w", err)
	}
	if err := s.writeKubeletConfig(node); err != nil {
		return fmt.Errorf("kubelet's configuration: %w", err)
	}
	args := []string{
		"--config=" + node.kubeletConfig(),
		"--kubeconfig=" + s.Kubeconfig(),
		"--hostname-override=" + s.opts.KubeletNodeName,
		"--root-dir=" + node.kubeletRoot(),
		"--cert-dir=" + node.pki(""),
		"--v=2",
	}
	if s.opts.ForPods {
		args = append(args, "--node-ip="+s.serviceAddress) // where kube-apiserver finds it
	}
	s.Kubelet = s.component(kubeletName, s.tools.kubelet, s.kubeletReady, args...)
	// Mounts are made with the host's program, and iptables looked for.
	s.Kubelet.env = containerdComponent(s, kubeletContainerdName, node).env
	s.progress("Starting the kubelet: about 15 seconds")
	return s.Kubelet.Start(ctx)
}

// writeKubeletConfig keeps the kubelet inside its folder and cgroup, and from
// limiting the events that are compared.
func (s *Stack) writeKubeletConfig(node layout) error {
	ports, err := freePorts(2)
	if err != nil {
		return err
	}
	config := map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"address": cmp.Or(s.serviceAddress, "127.0.0.1"), "port": ports[0], "readOnlyPort": 0,
		"healthzBindAddress": "127.0.0.1", "healthzPort": ports[1],
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false}, "webhook": map[string]any{"enabled": false},
			"x509": map[string]any{"clientCAFile": s.layout.pki("ca.crt")},
		},
		"authorization":               map[string]any{"mode": "AlwaysAllow"},
		"cgroupDriver":                "cgroupfs",
		"cgroupRoot":                  node.cgroupParent(),
		"failCgroupV1":                false,
		"containerRuntimeEndpoint":    "unix://" + node.containerdSocket(),
		"podLogsDir":                  node.podLogs(),
		"volumePluginDir":             node.path("volume-plugins"),
		"failSwapOn":                  false,
		"makeIPTablesUtilChains":      false,
		"enforceNodeAllocatable":      []string{"none"},
		"evictionHard":                map[string]string{"memory.available": "1Mi", "nodefs.available": "0%", "imagefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.inodesFree": "0%"},
		"imageGCHighThresholdPercent": 100,
		"eventRecordQPS":              500, "eventBurst": 1000, // 0 would mean client-go's 5
		"maxPods":             250,
		"clusterDNS":          []string{KubeletClusterDNS},
		"clusterDomain":       "cluster.local",
		"resolvConf":          "/etc/resolv.conf",
		"shutdownGracePeriod": "0s",
	}
	data, err := yaml.Marshal(config)
	if err != nil {
		return err
	}
	return os.WriteFile(node.kubeletConfig(), data, 0o600)
}

// KubeletClusterDNS is the DNS server of the kubelet's pods. Nothing answers there.
const KubeletClusterDNS = "10.0.0.10"

// kubeletReady waits until the kubelet says that its node is ready.
func (s *Stack) kubeletReady(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(s.api)
	if err != nil {
		return err
	}
	node, err := client.CoreV1().Nodes().Get(ctx, s.opts.KubeletNodeName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("node %s is not ready", node.Name)
}

// KubeletNodeName is the name of the kubelet's node.
func (s *Stack) KubeletNodeName() string { return s.opts.KubeletNodeName }

// KubeletPodLogDir holds the logs of the kubelet's containers.
func (s *Stack) KubeletPodLogDir() string { return s.layout.kubeletNode().podLogs() }
