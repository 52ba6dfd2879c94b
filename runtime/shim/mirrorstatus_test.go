// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/podworker"
)

// slowAPI is an API server that needs some time for each mirror, and refuses some.
type slowAPI struct {
	takes   map[types.UID]time.Duration
	refuses map[types.UID]bool
	mu      sync.Mutex
	written []string
}

func (a *slowAPI) Publish(ctx context.Context, id podworker.Identity, st *v1alpha1.NodeWorkloadStatus) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(a.takes[id.UID]):
	}
	if a.refuses[id.UID] {
		return errors.New("refused")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.written = append(a.written, string(id.UID)+" "+string(st.Phase))
	return nil
}

// Each mirror gets the latest status of its workload, whatever the API server does with the others; what it
// refuses is shown again when the mirror is seen next.
func TestMirrorsGetTheLatestStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &slowAPI{
			takes:   map[types.UID]time.Duration{"hung": time.Hour, "slow": time.Second},
			refuses: map[types.UID]bool{"refused": true},
		}
		m := &mirrors{publisher: api, statuses: mirrorStatuses{news: make(chan struct{}, 1)}, seen: map[types.UID]podworker.Identity{}}
		for _, name := range []types.UID{"hung", "slow", "fast", "refused"} {
			m.seen["static-"+name] = podworker.Identity{UID: name}
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = m.runStatuses(ctx) })
		for _, phase := range []corev1.PodPhase{corev1.PodPending, corev1.PodRunning, corev1.PodFailed} {
			for _, uid := range []types.UID{"static-hung", "static-slow", "static-fast", "static-refused", "static-without"} {
				m.statuses.offer(uid, &v1alpha1.NodeWorkloadStatus{Phase: phase})
			}
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		cancel()
		running.Wait()
		want := []string{"fast Pending", "fast Running", "fast Failed", "slow Pending", "slow Failed"}
		if diff := cmp.Diff(want, api.written); diff != "" {
			t.Errorf("written (-want +got):\n%s", diff)
		}
		if _, there := m.of("static-refused"); there {
			t.Error("the status that was refused is not shown again")
		}
	})
}
