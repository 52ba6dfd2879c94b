// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package nodestats

import (
	"context"
	"errors"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

var update = flag.Bool("update", false, "write the golden file")

// fakeRuntime has one pod with two containers, of which web uses half a CPU.
type fakeRuntime struct {
	asked int
	start time.Time
	err   error
}

func (r *fakeRuntime) ContainerUsage(ctx context.Context) ([]PodStats, error) {
	r.asked++
	if r.err != nil || ctx.Err() != nil {
		return nil, errors.Join(r.err, ctx.Err())
	}
	used := time.Since(r.start)/2 + 3*time.Second
	return []PodStats{{UID: "u", Namespace: "shop", Name: "web-n1", Containers: []ContainerStats{
		{Name: "web", ID: "w", Created: r.start, Usage: Usage{Time: time.Now(), CPU: used, WorkingSet: 4 << 20, Swap: &Swap{Used: 1, Available: 2}}, Disk: 7, Inodes: 2},
		{Name: "log", ID: "l", Created: r.start, Usage: Usage{Time: time.Now(), CPU: time.Second, WorkingSet: 1 << 20}, Disk: 5, Inodes: 1},
	}}}, nil
}

func newSource(r *fakeRuntime, cgroup bool) *Source {
	r.start = time.Now()
	return New(Config{
		Runtime: r,
		Cgroup: func(types.UID) (Usage, uint64, bool) {
			return Usage{Time: time.Now(), CPU: 9 * time.Second, WorkingSet: 6 << 20}, 12, cgroup
		},
		Node: func() (Usage, error) {
			return Usage{Time: time.Now(), CPU: 2 * time.Since(r.start), WorkingSet: 1 << 30}, nil
		},
	})
}

// The runtime is asked again after ten seconds, and the rate of CPU is that between two answers.
func TestRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &fakeRuntime{}
		s := newSource(r, false)
		first := s.Summary(t.Context())
		if first.Err != nil || first.Pods[0].NanoCores != 0 || first.Pods[0].Window != 0 {
			t.Errorf("the first answer has a rate: %+v", first)
		}
		time.Sleep(9 * time.Second)
		if _, err := s.Pods(t.Context()); err != nil || r.asked != 1 {
			t.Errorf("asked %d times within 9 s, error %v", r.asked, err)
		}
		time.Sleep(time.Second)
		second := s.Summary(t.Context())
		pod := second.Pods[0]
		if pod.Containers[1].Name != "web" || pod.Containers[1].NanoCores != 5e8 || pod.Containers[0].NanoCores != 0 || pod.Window != Fresh {
			t.Errorf("%+v", pod)
		}
		if pod.NanoCores != 5e8 || pod.CPU != 9*time.Second || pod.WorkingSet != 5<<20 || pod.Disk != 12 || pod.Inodes != 3 {
			t.Errorf("the pod is not the sum of its containers: %+v", pod)
		}
		if second.Node.NanoCores != 2e9 || r.asked != 2 {
			t.Errorf("the node uses %d, asked %d times", second.Node.NanoCores, r.asked)
		}
	})
}

// A pod uses what its cgroup says, where there is one.
func TestPodCgroup(t *testing.T) {
	pods, err := newSource(&fakeRuntime{}, true).Pods(t.Context())
	if err != nil || pods[0].CPU != 9*time.Second || pods[0].WorkingSet != 6<<20 || pods[0].Processes != 12 {
		t.Errorf("%+v, error %v", pods, err)
	}
}

// A caller who has left does not leave his error to the next.
func TestCallerLeaves(t *testing.T) {
	s := newSource(&fakeRuntime{}, false)
	left, cancel := context.WithCancel(t.Context())
	cancel()
	s.Summary(left)
	if pods, err := s.Pods(t.Context()); err != nil || len(pods) != 1 {
		t.Errorf("%d pods, error %v", len(pods), err)
	}
}

// /metrics/resource has the kubelet's names, labels and order of values.
func TestHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &fakeRuntime{}
		s := newSource(r, true)
		golden := filepath.Join("testdata", "resource.txt")
		if *update {
			if err := os.WriteFile(golden, []byte(get(s)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), get(s)); diff != "" {
			t.Error(diff)
		}
		time.Sleep(Fresh)
		r.err = errors.New("no answer")
		if got := get(s); !strings.Contains(got, "\nscrape_error 1\n") || !strings.Contains(got, "\nresource_scrape_error 1\n") ||
			!strings.Contains(got, "\nnode_cpu_usage_seconds_total 20 ") || strings.Contains(got, "pod_") {
			t.Errorf("without the runtime:\n%s", got)
		}
	})
}

func get(s *Source) string {
	answer := httptest.NewRecorder()
	s.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics/resource", nil))
	return answer.Body.String()
}

// The node's figures come from /proc.
func TestReadNode(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"stat":    "cpu  1000 200 300 99999 5000 40 60 100 50 0\ncpu0 1000 200 300 99999 5000 40 60 100 50 0\nctxt 1\nbtime 2\nprocesses 3\nprocs_running 1\nprocs_blocked 0\n",
		"meminfo": "MemTotal: 1000 kB\nMemFree: 100 kB\nInactive(file): 300 kB\nSwapTotal: 50 kB\nSwapFree: 20 kB\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	u, err := ReadNode(dir)
	if err != nil || u.CPU != 17*time.Second || u.WorkingSet != 600<<10 || *u.Swap != (Swap{Used: 30 << 10, Available: 20 << 10}) {
		t.Errorf("%+v, swap %+v, error %v", u, u.Swap, err)
	}
	if _, err := ReadNode(filepath.Join(dir, "none")); err == nil {
		t.Error("no error without a proc file system")
	}
}
