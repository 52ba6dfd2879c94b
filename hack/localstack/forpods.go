// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package localstack

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
)

// podFlags are kube-apiserver's flags by which pods are or are not served, and nodes write what is
// theirs only. Without kube-controller-manager no namespace gets a service account, so the
// admission plugin that asks for them is off.
func (s *Stack) podFlags() []string {
	flags := []string{"--enable-admission-plugins=" + strings.Join(append([]string{"NodeRestriction"}, s.opts.AdmissionPlugins...), ",")}
	switch {
	case len(s.opts.AdmissionPlugins) > 0:
		return flags
	case !s.opts.ForPods && !s.opts.WithObjects:
		return append(flags, "--disable-admission-plugins=ServiceAccount")
	case !s.opts.ForPods:
		return flags
	}
	return append(flags,
		"--kubelet-client-certificate="+s.layout.pki("client.crt"), "--kubelet-client-key="+s.layout.pki("client.key"),
		"--kubelet-preferred-address-types=InternalIP",
	)
}

// addServiceNetwork gives this machine the address that the Service of
// kube-apiserver will have, the first of a subnet for Services. So pods reach
// kube-apiserver there without a kube-proxy, from the pod network and the host's.
func (s *Stack) addServiceNetwork(ctx context.Context) (netip.Prefix, error) {
	subnet, err := s.takeSubnet(s.layout)
	if err != nil {
		return netip.Prefix{}, err
	}
	address, bridge := subnet.Addr().Next(), s.layout.serviceBridge()
	for _, args := range [][]string{
		{"link", "add", "name", bridge, "type", "bridge"},
		{"address", "add", address.String() + "/32", "dev", bridge},
		{"link", "set", bridge, "up"},
	} {
		if err := run(ctx, command{path: "ip", args: args}); err != nil {
			return netip.Prefix{}, err
		}
	}
	s.serviceAddress = address.String()
	return subnet, nil
}

func removeServiceNetwork(ctx context.Context, l layout) error {
	if _, err := os.Stat(filepath.Join("/sys/class/net", l.serviceBridge())); err != nil {
		return nil //nolint:nilerr // it is not there
	}
	return run(ctx, command{path: "ip", args: []string{"link", "delete", l.serviceBridge()}})
}
