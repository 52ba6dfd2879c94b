// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// watch runs Watch for the length of the test.
func watch(t *testing.T, client *Client, notify func(types.UID)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- client.Watch(ctx, notify) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("want Canceled, got %v", err)
		}
		if client.Healthy() {
			t.Error("healthy after the end")
		}
	})
}

func await(t *testing.T, notified <-chan types.UID, want types.UID) {
	t.Helper()
	for {
		select {
		case uid := <-notified:
			if uid == want {
				return
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("no notification about %q", want)
		}
	}
}

// tell sends an event until want is notified: one that comes together with a
// reason to list everything is covered by that.
func tell(t *testing.T, fake *fakeRuntime, event *runtimeapi.ContainerEventResponse, notified <-chan types.UID, want types.UID) {
	t.Helper()
	fake.events <- event
	for {
		select {
		case uid := <-notified:
			switch uid {
			case want:
				return
			case Every:
				fake.events <- event
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("no notification about %q", want)
		}
	}
}

func podEvent(uid string) *runtimeapi.ContainerEventResponse {
	return &runtimeapi.ContainerEventResponse{PodSandboxStatus: &runtimeapi.PodSandboxStatus{
		Metadata: &runtimeapi.PodSandboxMetadata{Uid: uid},
	}}
}

func TestWatch(t *testing.T) {
	fake, client := newFake(t)
	// Long enough for the first notification to be taken before the second comes.
	client.settle = time.Second
	notified := make(chan types.UID, 100)
	watch(t, client, func(uid types.UID) { notified <- uid })
	// At first everything must be listed, and again once the stream has settled.
	await(t, notified, Every)
	await(t, notified, Every)
	if !client.Healthy() {
		t.Error("want it healthy")
	}
	tell(t, fake, podEvent("a"), notified, "a")
	tell(t, fake, &runtimeapi.ContainerEventResponse{ContainersStatuses: []*runtimeapi.ContainerStatus{
		{}, {Labels: map[string]string{labelPodUID: "b"}},
	}}, notified, "b")
	fake.events <- &runtimeapi.ContainerEventResponse{ContainerId: "nobody knows"}
	await(t, notified, Every)

	// The runtime goes away and comes back: everything must be listed again.
	fake.stop()
	eventually(t, func() bool { return !client.Healthy() })
	fake.listen(t)
	await(t, notified, Every)
	eventually(t, client.Healthy)
	tell(t, fake, podEvent("c"), notified, "c")
}

// The event of a removed sandbox no longer says whose it was.
func TestEventOfWhatIsGone(t *testing.T) {
	fake, client := newFake(t)
	pod := newPod()
	sandbox := runSandbox(t, client, pod, 0)
	container := start(t, client, pod, &pod.Spec.Containers[0], sandbox, 0)
	podStatus(t, client)
	// Also when the pod was last seen stopped.
	if err := client.StopSandbox(t.Context(), sandbox); err != nil {
		t.Fatal(err)
	}
	podStatus(t, client)
	notified := make(chan types.UID, 100)
	watch(t, client, func(uid types.UID) { notified <- uid })
	for _, id := range []string{sandbox, container} {
		tell(t, fake, &runtimeapi.ContainerEventResponse{ContainerId: id}, notified, "uid-1")
	}
}

// However slow the listener, the runtime's stream is drained, and what waits
// becomes one notification a pod.
func TestSlowListener(t *testing.T) {
	fake, client := newFake(t)
	release := make(chan struct{})
	notified := make(chan types.UID, 10000)
	watch(t, client, func(uid types.UID) {
		<-release
		notified <- uid
	})
	const events = 5000
	for i := range events {
		// It would hang here if the client did not read on.
		fake.events <- podEvent(fmt.Sprint(i % 3))
	}
	close(release)
	tell(t, fake, podEvent("last"), notified, "last")
	if n := len(notified); n > 10 {
		t.Errorf("want the events as few notifications, %d are left", n)
	}
}

// A runtime without events never looks healthy, so that its callers list it.
func TestRuntimeWithoutEvents(t *testing.T) {
	fake, client := newFake(t)
	fake.noEvents = true
	asked := make(chan types.UID, 10)
	watch(t, client, func(uid types.UID) { asked <- uid })
	await(t, asked, Every)
	for range 20 {
		if client.Healthy() {
			t.Fatal("healthy without events")
		}
		time.Sleep(client.settle / 5)
	}
}

func TestPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPending()
		p.add("a")
		p.add("b")
		p.add("a")
		<-p.wake
		got := p.take()
		slices.Sort(got)
		if !slices.Equal(got, []types.UID{"a", "b"}) {
			t.Errorf("got %v", got)
		}
		if got := p.take(); len(got) != 0 {
			t.Errorf("want nothing left, got %v", got)
		}
		p.add("a")
		p.add(Every)
		p.add("b")
		if got := p.take(); !slices.Equal(got, []types.UID{Every}) {
			t.Errorf("everything covers the rest, got %v", got)
		}
		for i := range 3 * maxPending {
			p.add(types.UID(fmt.Sprint(i)))
		}
		if got := p.take(); !slices.Equal(got, []types.UID{Every}) {
			t.Errorf("too many are all of them, got %d", len(got))
		}
		select {
		case <-p.wake:
		default:
			t.Error("no worker was woken")
		}
	})
}

func TestStatusCacheForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newStatusCache()
		ready := plan.SandboxStatus{ID: "s", State: plan.SandboxReady}
		c.keepSandbox("u", ready)
		if _, ok := c.sandbox("s", ready.State); !ok {
			t.Error("want it remembered")
		}
		if _, ok := c.sandbox("s", "NOTREADY"); ok {
			t.Error("another state must be read")
		}
		time.Sleep(statusMaxAge)
		if _, ok := c.sandbox("s", ready.State); ok {
			t.Error("want it read again after a while")
		}
		if uid, ok := c.owner("s"); uid != "u" || !ok {
			t.Errorf("its owner is still known, got %q", uid)
		}
		time.Sleep(2 * statusSweep)
		c.keepSandbox("u", plan.SandboxStatus{ID: "other", State: plan.SandboxReady})
		if _, ok := c.owner("s"); ok || len(c.sandboxes) != 1 {
			t.Error("want it forgotten")
		}
	})
}

// panickingEvents is a runtime whose events panic the reader.
type panickingEvents struct {
	runtimeapi.RuntimeServiceClient
	calls int
}

func (r *panickingEvents) GetContainerEvents(context.Context, *runtimeapi.GetEventsRequest, ...grpc.CallOption) (grpc.ServerStreamingClient[runtimeapi.ContainerEventResponse], error) {
	r.calls++
	panic("boom")
}

// A panic of the stream of events ends neither the process nor the stream for good.
func TestEventStreamSurvivesAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := &panickingEvents{}
		c := &Client{runtime: r}
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.keepFollowing(ctx, newPending())
		}()
		time.Sleep(10 * maxReconnect)
		cancel()
		<-done
		if r.calls < 2 {
			t.Errorf("opened %d times, want it to be opened again", r.calls)
		}
	})
}
