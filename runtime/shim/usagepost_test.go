// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/subresources/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/nodestats"
)

// fixedStats has one pod, or none.
type fixedStats struct{ pods []nodestats.PodStats }

func (f *fixedStats) Summary(context.Context) nodestats.Summary {
	return nodestats.Summary{Node: nodestats.Usage{Time: time.Now(), NanoCores: 2e9, WorkingSet: 1 << 30, Window: time.Minute}, Pods: f.pods}
}

// A node posts each minute, less often while it is refused, and nothing where nothing runs.
func TestUsagePoster(t *testing.T) {
	refused := errors.New("not installed")
	for name, tt := range map[string]struct {
		pods     []nodestats.PodStats
		err      error
		min, max int
	}{
		"taken":        {[]nodestats.PodStats{{Name: "web"}}, nil, 60, 60},
		"refused":      {[]nodestats.PodStats{{Name: "web"}}, refused, 8, 9}, // after 1, 2, 4, 8, 10, 10, ... minutes
		"nothing runs": {nil, nil, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				posts := 0
				p := &usagePoster{node: "n1", stats: &fixedStats{tt.pods}, log: logr.Discard(), post: func(context.Context, *v1alpha1.NodeUsage) error {
					posts++
					return tt.err
				}}
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan error)
				go func() { done <- p.run(ctx) }()
				time.Sleep(time.Hour)
				stop()
				if err := <-done; err != nil || posts < tt.min || posts > tt.max {
					t.Errorf("%d posts within an hour, want %d to %d; error %v", posts, tt.min, tt.max, err)
				}
			})
		})
	}
}

// What is posted is what was measured, in the units of the API.
func TestNodeUsage(t *testing.T) {
	summary := (&fixedStats{[]nodestats.PodStats{{
		Namespace: "ns", Name: "web", Usage: nodestats.Usage{NanoCores: 25e7, WorkingSet: 5 << 20}, Disk: 4096,
		Containers: []nodestats.ContainerStats{{Name: "c", Usage: nodestats.Usage{NanoCores: 2e8, WorkingSet: 4 << 20}, Disk: 4096}},
	}}}).Summary(t.Context())
	u := nodeUsage("n1", &summary)
	text := func(list corev1.ResourceList) [3]string {
		return [3]string{list.Cpu().String(), list.Memory().String(), list.StorageEphemeral().String()}
	}
	got := [][3]string{text(u.Usage), text(u.Workloads[0].Usage), text(u.Workloads[0].Containers[0].Usage)}
	want := [][3]string{{"2", "1Gi", "0"}, {"250m", "5Mi", "4Ki"}, {"200m", "4Mi", "4Ki"}}
	if diff := cmp.Diff(want, got); diff != "" || u.Name != "n1" || u.Workloads[0].Namespace != "ns" || u.Workloads[0].Name != "web" || u.Window.Duration != time.Minute {
		t.Errorf("%s\n%+v", diff, u)
	}
	summary.Pods = make([]nodestats.PodStats, 600)
	summary.Pods[0].Containers = make([]nodestats.ContainerStats, 200)
	if u := nodeUsage("n1", &summary); len(u.Workloads) != v1alpha1.MaxNodeUsageWorkloads || len(u.Workloads[0].Containers) != v1alpha1.MaxUsageContainers {
		t.Errorf("%d workloads, %d containers", len(u.Workloads), len(u.Workloads[0].Containers))
	}
}
