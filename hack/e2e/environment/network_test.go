// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// On the pod network a container has its own address, reachable from the node,
// host ports lead to it, and its names are those of the pod.
func TestPodNetwork(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	commands := []string{"hostname", "cat /etc/hosts", "cat /etc/resolv.conf", "readlink /proc/self/ns/net", "readlink /proc/self/ns/uts", "ls /sys/class/net", "env POD_IP"}
	w := env.Apply(t, fmt.Sprintf(`
hostAliases: [{ip: 192.0.2.7, hostnames: [one.test, two.test]}]
containers:
- {name: c, image: %s, args: %s, env: [{name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]}
- {name: web, image: %s, args: [serve, "--http=:8080"], ports: [{containerPort: 8080, hostPort: %d}]}`, testImage, show(commands...), testImage, port))
	nw := w.AwaitReady()
	got := shown(t, w, "c", commands...)
	if len(nw.Status.PodIPs) == 0 || len(nw.Status.HostIPs) == 0 || nw.Status.PodIPs[0] == nw.Status.HostIPs[0] {
		t.Fatalf("pod IPs %v, host IPs %v", nw.Status.PodIPs, nw.Status.HostIPs)
	}
	ip := nw.Status.PodIPs[0]
	expect(t, got, map[string]string{
		"hostname":             nw.Name,
		"env POD_IP":           ip,
		"cat /etc/resolv.conf": "search " + w.Namespace + ".svc.mw.test svc.mw.test mw.test node.test\nnameserver " + clusterDNS + "\noptions ndots:5",
	})
	for _, line := range []string{"# Kubernetes-managed hosts file.\n", "127.0.0.1\tlocalhost\n", "::1\tlocalhost ip6-localhost ip6-loopback\n",
		"\n" + ip + "\t" + nw.Name + "\n", "# Entries added by HostAliases.\n192.0.2.7\tone.test\ttwo.test"} {
		contains(t, "/etc/hosts", got["cat /etc/hosts"], line)
	}
	for _, ns := range []string{"net", "uts"} {
		if path := "/proc/self/ns/" + ns; got["readlink "+path] == hostLink(t, path) {
			t.Errorf("the container is in the node's %s namespace", ns)
		}
	}
	contains(t, "interfaces", got["ls /sys/class/net"], "eth0")
	reach(t, net.JoinHostPort(ip, "8080"))
	reach(t, net.JoinHostPort(nw.Status.HostIPs[0], strconv.Itoa(port)))
	reach(t, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	w.DeleteAndCollect()
	if conn, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), time.Second); err == nil {
		t.Errorf("the host port still leads somewhere: %v", conn.Close())
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close() //nolint:errcheck // Only to find a port.
	address, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatalf("no TCP address: %v", listener.Addr())
	}
	return address.Port
}

// reach asks the test program at an address whether it is healthy.
func reach(t *testing.T, address string) {
	t.Helper()
	client := http.Client{Timeout: 10 * time.Second}
	response, err := client.Get("http://" + address + "/healthz")
	if err != nil {
		t.Errorf("reach the container: %v", err)
		return
	}
	defer response.Body.Close() //nolint:errcheck // Only read.
	if _, err := io.ReadAll(response.Body); err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("GET %s: %s, %v", address, response.Status, err)
	}
}

// With the host's namespaces a container sees what the node sees.
func TestHostNamespaces(t *testing.T) {
	t.Parallel()
	links := []string{"readlink /proc/self/ns/net", "readlink /proc/self/ns/pid", "readlink /proc/self/ns/ipc", "readlink /proc/self/ns/uts"}
	commands := append([]string{"hostname", "cat /etc/hosts", "cat /etc/resolv.conf", "ps", "env POD_IP", "env HOST_IP"}, links...)
	w := env.Apply(t, fmt.Sprintf(`
hostNetwork: true
hostPID: true
hostIPC: true
hostAliases: [{ip: 192.0.2.8, hostnames: [alias.test]}]
containers:
- {name: c, image: %s, args: %s, env: [{name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}, {name: HOST_IP, valueFrom: {fieldRef: {fieldPath: status.hostIP}}}]}`,
		testImage, show(commands...)))
	nw := w.AwaitReady()
	got := shown(t, w, "c", commands...)
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	nodeHosts, err := os.ReadFile("/etc/hosts")
	if err != nil {
		t.Fatal(err)
	}
	expect(t, got, map[string]string{
		"hostname":       name,
		"env POD_IP":     nw.Status.HostIPs[0],
		"env HOST_IP":    nw.Status.HostIPs[0],
		"cat /etc/hosts": "# Kubernetes-managed hosts file (host network).\n" + string(nodeHosts) + "\n# Entries added by HostAliases.\n192.0.2.8\talias.test",
		// ClusterFirst on the host network is Default.
		"cat /etc/resolv.conf": "search node.test\nnameserver " + nodeNameserver + "\noptions timeout:1",
	})
	for _, link := range links {
		path := strings.TrimPrefix(link, "readlink ")
		if got[link] != hostLink(t, path) {
			t.Errorf("%s is %s, and the node's %s", path, got[link], hostLink(t, path))
		}
	}
	contains(t, "processes", "\n"+got["ps"], fmt.Sprintf("\n%d ", os.Getpid()))
}

func TestHostnames(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		spec         string
		wantHostname string // $NS is the namespace, $NAME that of the NodeWorkload
		wantHosts    string
	}{
		"hostname":               {"hostname: h", "h", "\th\n"},
		"hostname and subdomain": {"hostname: h\nsubdomain: s", "h", "\th.s.$NS.svc.mw.test\th\n"},
		"subdomain":              {"subdomain: s", "$NAME", "\t$NAME.s.$NS.svc.mw.test\t$NAME\n"},
		"fqdn":                   {"hostname: h\nsubdomain: s\nsetHostnameAsFQDN: true", "h.s.$NS.svc.mw.test", "\th.s.$NS.svc.mw.test\th\n"},
	}
	commands := []string{"hostname", "cat /etc/hosts"}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := env.Apply(t, fmt.Sprintf("%s\ncontainers:\n- {name: c, image: %s, args: %s}", tc.spec, testImage, show(commands...)))
			w.AwaitReady()
			got := shown(t, w, "c", commands...)
			expand := strings.NewReplacer("$NS", w.Namespace, "$NAME", w.Node().Name).Replace
			expect(t, got, map[string]string{"hostname": expand(tc.wantHostname)})
			contains(t, "/etc/hosts", got["cat /etc/hosts"]+"\n", expand(tc.wantHosts))
		})
	}
}

func TestResolvConf(t *testing.T) {
	t.Parallel()
	// ClusterFirst is in TestPodNetwork.
	tests := map[string]struct{ spec, want string }{
		"Default": {"dnsPolicy: Default", "search node.test\nnameserver " + nodeNameserver + "\noptions timeout:1"},
		"None with dnsConfig": {`dnsPolicy: None
dnsConfig: {nameservers: [192.0.2.1, 192.0.2.2], searches: [a.test, b.test], options: [{name: ndots, value: "2"}, {name: rotate}]}`,
			"search a.test b.test\nnameserver 192.0.2.1\nnameserver 192.0.2.2\noptions ndots:2 rotate"},
		"Default with dnsConfig": {`dnsPolicy: Default
dnsConfig: {nameservers: [192.0.2.1], searches: [a.test]}`,
			"search node.test a.test\nnameserver " + nodeNameserver + "\nnameserver 192.0.2.1\noptions timeout:1"},
		"ClusterFirstWithHostNet": {"hostNetwork: true\ndnsPolicy: ClusterFirstWithHostNet",
			"search $NS.svc.mw.test svc.mw.test mw.test node.test\nnameserver " + clusterDNS + "\noptions ndots:5"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const command = "cat /etc/resolv.conf"
			w := env.Apply(t, fmt.Sprintf("%s\ncontainers:\n- {name: c, image: %s, args: %s}", tc.spec, testImage, show(command)))
			expect(t, shown(t, w, "c", command), map[string]string{command: strings.ReplaceAll(tc.want, "$NS", w.Namespace)})
		})
	}
}

// Resolvers take three nameservers: what is left out is reported.
func TestTooManyNameservers(t *testing.T) {
	t.Parallel()
	const command = "cat /etc/resolv.conf"
	w := env.Apply(t, fmt.Sprintf(`
dnsPolicy: Default
dnsConfig: {nameservers: [192.0.2.1, 192.0.2.2, 192.0.2.3]}
containers:
- {name: c, image: %s, args: %s}`, testImage, show(command)))
	servers := []string{nodeNameserver, "192.0.2.1", "192.0.2.2"}
	expect(t, shown(t, w, "c", command), map[string]string{
		command: "search node.test\nnameserver " + strings.Join(servers, "\nnameserver ") + "\noptions timeout:1",
	})
	event := w.AwaitEvent("DNSConfigForming", "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: "+strings.Join(servers, " "))
	if event.InvolvedObject.Kind != "NodeWorkload" || event.Type != corev1.EventTypeWarning {
		t.Errorf("event %s about a %s", event.Type, event.InvolvedObject.Kind)
	}
}

// Containers of a pod see each other's processes only with a shared namespace.
func TestProcessNamespaces(t *testing.T) {
	t.Parallel()
	const command = "readlink /proc/self/ns/pid"
	for name, shared := range map[string]bool{"shared": true, "own": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := env.Apply(t, fmt.Sprintf(`
shareProcessNamespace: %t
containers:
- {name: a, image: %s, args: %s}
- {name: b, image: %s, args: %s}`, shared, testImage, show(command, "ps"), testImage, show(command)))
			a, b := shown(t, w, "a", command, "ps"), shown(t, w, "b", command)
			if (a[command] == b[command]) != shared {
				t.Errorf("a is in %s, b in %s", a[command], b[command])
			}
			if host := hostLink(t, "/proc/self/ns/pid"); a[command] == host {
				t.Errorf("a is in the node's %s", host)
			}
			if pause := strings.HasPrefix(a["ps"], "1 /testprogram pause"); pause != shared {
				t.Errorf("processes %q: sees the sandbox's %t, want %t", a["ps"], pause, shared)
			}
		})
	}
}
