// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package localstack

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// writeNetwork configures the pod network of a node.
func (s *Stack) writeNetwork(l layout) error {
	subnet, err := s.takeSubnet(l)
	if err != nil {
		return err
	}
	if l.onHost {
		return writeHostCNIConfig(l, s.opts.HostNetwork, subnet)
	}
	return writeCNI(l, networkConfig(l, subnet))
}

// takeSubnet picks a subnet that nothing else on the machine has, nor another node of
// the stack: there is no interface for it before the first pod.
func (s *Stack) takeSubnet(l layout) (netip.Prefix, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	subnet, err := freeSubnet(l.id, s.subnets...)
	s.subnets = append(s.subnets, subnet)
	return subnet, err
}

// networkConfig gives a node a pod network of its own: bridge, addresses and host
// ports.
func networkConfig(l layout, subnet netip.Prefix) map[string]any {
	return map[string]any{
		"cniVersion": "1.0.0",
		"name":       l.bridge(),
		"plugins": []map[string]any{
			{
				"type": "bridge", "bridge": l.bridge(),
				"isGateway": true, "ipMasq": true, "hairpinMode": true,
				"ipam": map[string]any{
					"type": "host-local", "dataDir": l.cniData(),
					"ranges": [][]map[string]string{{{"subnet": subnet.String()}}},
					"routes": []map[string]string{{"dst": "0.0.0.0/0"}},
				},
			},
			{"type": "portmap", "capabilities": map[string]bool{"portMappings": true}, "snat": true},
		},
	}
}

// writeHostCNIConfig writes the configuration of docs/operations.md with a name, a
// bridge and a subnet that nothing else on the machine has.
func writeHostCNIConfig(l layout, text string, subnet netip.Prefix) error {
	var config struct {
		Version string           `json:"cniVersion"`
		Name    string           `json:"name"`
		Plugins []map[string]any `json:"plugins"`
	}
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		return err
	}
	config.Name = l.bridge()
	for _, plugin := range config.Plugins {
		ipam, _ := plugin["ipam"].(map[string]any)
		if plugin["type"] == "bridge" && ipam != nil {
			plugin["bridge"] = l.bridge()
			ipam["ranges"] = [][]map[string]string{{{"subnet": subnet.String()}}}
		}
	}
	return writeCNI(l, config)
}

func writeCNI(l layout, config any) error {
	data, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(l.cniConfig(), "10-localstack.conflist"), data, 0o644)
}

// freeSubnet picks a /24 from the node's id that overlaps with no interface and is not
// taken.
func freeSubnet(id string, taken ...netip.Prefix) (netip.Prefix, error) {
	const first, blocks = 100, 100 // 10.100.0.0 to 10.199.255.0
	seed, err := strconv.ParseUint(id, 16, 32)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("id of the stack: %w", err)
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Prefix{}, err
	}
	for try := range uint64(blocks * 256) {
		n := (seed + try) % (blocks * 256)
		subnet := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(first + n/256), byte(n % 256), 0}), 24)
		if !overlaps(subnet, addresses) && !slices.Contains(taken, subnet) {
			return subnet, nil
		}
	}
	return netip.Prefix{}, errors.New("no subnet of 10.100.0.0 to 10.199.255.0 is free")
}

func overlaps(subnet netip.Prefix, addresses []net.Addr) bool {
	for _, address := range addresses {
		used, err := netip.ParsePrefix(address.String())
		if err == nil && used.Overlaps(subnet) {
			return true
		}
	}
	return false
}
