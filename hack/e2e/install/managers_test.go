// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/hack/e2e/harness"
)

// readMetrics scrapes the ports that the manifests name: the alerts depend on one leader
// that says so.
func readMetrics(t *testing.T, _ *harness.Workload) {
	kubectl(t, "create", "serviceaccount", "scraper", "-n", system)
	defer kubectl(t, "delete", "serviceaccount", "scraper", "-n", system)
	token := strings.TrimSpace(kubectl(t, "create", "token", "scraper", "-n", system))
	if code, _ := scrapeWith(t, *pod(t, "shim"), token); code != http.StatusForbidden {
		t.Errorf("the shim shows its metrics to an account without the right: %d", code)
	}
	if code, _ := scrapeWith(t, *pod(t, "shim"), "x"); code != http.StatusUnauthorized {
		t.Errorf("the shim shows its metrics to a made-up token: %d", code)
	}
	kubectl(t, "create", "serviceaccount", "reader", "-n", system)
	defer kubectl(t, "delete", "serviceaccount", "reader", "-n", system)
	kubectl(t, "create", "clusterrolebinding", "metrics-reader", "--clusterrole=managedworkload-metrics-reader", "--serviceaccount="+system+":reader")
	defer kubectl(t, "delete", "clusterrolebinding", "metrics-reader")
	token = strings.TrimSpace(kubectl(t, "create", "token", "reader", "-n", system))
	leaders := 0
	for _, manager := range pods(t, "manager") {
		text := scrape(t, manager, token)
		if strings.Contains(text, `leader_election_master_status{name="managedworkload-manager"} 1`) {
			leaders++
		} else if !strings.Contains(text, `leader_election_master_status{name="managedworkload-manager"} 0`) {
			t.Errorf("%s does not say whether it leads", manager.Name)
		}
	}
	if leaders != 1 {
		t.Errorf("%d managers say that they lead", leaders)
	}
	text := scrape(t, *pod(t, "shim"), token)
	for _, want := range []string{"managedworkload_shim_runtime_events_healthy 1", "managedworkload_shim_acts_as_node 1"} {
		if !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("metrics of the shim lack %s:\n%s", want, text)
		}
	}
}

// scrape reads the metrics as the PodMonitor of config/components/prometheus has it done.
func scrape(t *testing.T, pod corev1.Pod, token string) string {
	t.Helper()
	code, text := scrapeWith(t, pod, token)
	if code != http.StatusOK {
		t.Fatalf("metrics of %s: %d", pod.Name, code)
	}
	return text
}

func scrapeWith(t *testing.T, pod corev1.Pod, token string) (code int, text string) {
	t.Helper()
	ports := pod.Spec.Containers[0].Ports
	i := slices.IndexFunc(ports, func(port corev1.ContainerPort) bool { return port.Name == "metrics" })
	if i < 0 {
		t.Fatalf("%s has no port for metrics", pod.Name)
	}
	url := "https://" + net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(int(ports[i].ContainerPort))) + "/metrics"
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // as the PodMonitor has it
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close() //nolint:errcheck // only read
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(content)
}

// hangManager has the leader hang and come back while the other leads: it ends, and leads
// no longer. No container notices.
func hangManager(t *testing.T, w *harness.Workload) {
	adopts(t, w, func() {
		hung := leader(t)
		pid := process(t, hung)
		signal(t, pid, unix.SIGSTOP)
		t.Cleanup(func() { _ = unix.Kill(pid, unix.SIGCONT) }) // gone, unless the test failed
		other := awaitLeader(t, hung.Name+" hangs", func(name string) bool { return name != hung.Name })
		signal(t, pid, unix.SIGCONT)
		awaitPod(t, "manager", hung.Name+" ends and starts again", func(pod *corev1.Pod) bool {
			return pod.Name == hung.Name && pod.Status.ContainerStatuses[0].RestartCount > hung.Status.ContainerStatuses[0].RestartCount
		})
		if now := leader(t); now.Name != other {
			t.Errorf("%s leads after %s came back, want %s", now.Name, hung.Name, other)
		}
	})
}

// killManager kills the leader: another leads, and no container notices.
func killManager(t *testing.T, w *harness.Workload) {
	adopts(t, w, func() {
		killed, holder := leader(t), holderOfLease(t)
		signal(t, process(t, killed), unix.SIGKILL)
		awaitLeader(t, killed.Name+" was killed", func(string) bool { return holderOfLease(t) != holder })
		rolledOut(t, manager)
	})
}

func signal(t *testing.T, pid int, signal unix.Signal) {
	t.Helper()
	if err := unix.Kill(pid, signal); err != nil {
		t.Fatal(err)
	}
}

// leader is the manager's pod that leads.
func leader(t *testing.T) *corev1.Pod {
	t.Helper()
	name, _, _ := strings.Cut(holderOfLease(t), "_")
	all := pods(t, "manager")
	i := slices.IndexFunc(all, func(pod corev1.Pod) bool { return pod.Name == name })
	if i < 0 {
		t.Fatalf("%q leads, which is no manager", name)
	}
	return &all[i]
}

// holderOfLease is the name of the pod that leads, and what its process adds.
func holderOfLease(t *testing.T) string {
	t.Helper()
	lease := &coordinationv1.Lease{}
	if err := env.Kube.Get(t.Context(), client.ObjectKey{Namespace: system, Name: "managedworkload-manager"}, lease); err != nil {
		t.Fatal(err)
	}
	return ptr.Deref(lease.Spec.HolderIdentity, "")
}

// awaitLeader waits until a pod leads that is as wanted, and returns its name.
func awaitLeader(t *testing.T, why string, done func(name string) bool) (name string) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, harness.Timeout, true, func(context.Context) (bool, error) {
		name, _, _ = strings.Cut(holderOfLease(t), "_")
		return name != "" && done(name), nil
	})
	if err != nil {
		t.Fatalf("another leader, since %s: %v", why, err)
	}
	return name
}
