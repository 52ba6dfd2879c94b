// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package localstack

import (
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSocketsFit checks the limit of 108 bytes for the longest socket there is:
// the one that containerd names with a hash for each of its shims.
func TestSocketsFit(t *testing.T) {
	for _, dir := range []string{
		"/s",
		"/var/tmp/mw-demo",
		"/" + strings.Repeat("d", longestStateDir-1),
		"/" + strings.Repeat("d", longestStateDir),
		"/home/somebody/" + strings.Repeat("d", 90),
	} {
		l, err := newLayout(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, node := range []layout{l, l.kubeletNode(), l.further(99)} {
			for _, socket := range []string{
				filepath.Join(node.shimSockets(), strings.Repeat("f", 64)),
				node.containerdSocket() + ".ttrpc",
			} {
				if len(socket) > 107 {
					t.Errorf("state folder %s: socket %s has %d bytes", dir, socket, len(socket))
				}
			}
		}
		if len(l.bridge()) > 15 {
			t.Errorf("state folder %s: bridge %s is too long a name", dir, l.bridge())
		}
	}
}

func TestFreeSubnet(t *testing.T) {
	got, err := freeSubnet("00000102")
	if err != nil {
		t.Fatal(err)
	}
	if want := netip.MustParsePrefix("10.101.2.0/24"); got != want {
		// Only if this very machine uses it may it be another.
		addresses, err := net.InterfaceAddrs()
		if err != nil || !overlaps(want, addresses) {
			t.Errorf("got %s, want %s (%v)", got, want, err)
		}
	}
	if again, err := freeSubnet("00000102", got); err != nil || again.Overlaps(got) {
		t.Errorf("got %s (%v) although it is taken", again, err)
	}
	used := []net.Addr{&net.IPNet{IP: net.IPv4(10, 101, 0, 1), Mask: net.CIDRMask(16, 32)}}
	if !overlaps(got, used) {
		t.Errorf("%s does not overlap with %s", got, used)
	}
}

func TestSplitRule(t *testing.T) {
	tests := map[string]struct {
		rule string
		want []string
	}{
		"no comment": {
			rule: "-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT",
			want: []string{"-A", "PREROUTING", "-m", "addrtype", "--dst-type", "LOCAL", "-j", "CNI-HOSTPORT-DNAT"},
		},
		"a comment with quotes": {
			rule: `-A POSTROUTING -s 10.1.2.3/32 -m comment --comment "name: \"mw-1\" id: \"2\"" -j CNI-abc`,
			want: []string{"-A", "POSTROUTING", "-s", "10.1.2.3/32", "-m", "comment", "--comment", `name: "mw-1" id: "2"`, "-j", "CNI-abc"},
		},
		"nothing": {},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, splitRule(tc.rule)); diff != "" {
				t.Errorf("words (-want +got):\n%s", diff)
			}
		})
	}
}

// A cgroup inside the stack's is where the driver nests it.
func TestCgroups(t *testing.T) {
	for driver, want := range map[string]string{"": "/mw-ID /mw-ID/a-b", "systemd": "/mw_ID.slice /mw_ID.slice/mw_ID-a_b.slice"} {
		t.Setenv("MW_CGROUP_DRIVER", driver)
		l, err := newLayout("/s")
		if err != nil {
			t.Fatal(err)
		}
		n := &Node{layout: l}
		if got := strings.ReplaceAll(n.CgroupParent()+" "+n.CgroupBelow("a-b"), l.id, "ID"); got != want {
			t.Errorf("driver %q: %s, want %s", driver, got, want)
		}
		if got := l.hostNode().cgroupParent(); got != "/managedworkload" {
			t.Errorf("driver %q: %s on the host", driver, got)
		}
	}
}
