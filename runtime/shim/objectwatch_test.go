// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	apiobjects "github.com/managedworkload/managedworkload/api/objects"
	"github.com/managedworkload/managedworkload/api/subresources/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/objects"
)

func nodeObject(name, value string) *v1alpha1.NodeObject {
	return &v1alpha1.NodeObject{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: v1alpha1.NodeObjectName("Secret", name)},
		ObjectKind: "Secret", ObjectName: name, ObjectUID: "1", ObjectVersion: value,
		State: v1alpha1.ObjectPresent, Data: map[string][]byte{"key": []byte(value)},
	}
}

func eventLine(t *testing.T, kind string, object any) string {
	t.Helper()
	line, err := json.Marshal(map[string]any{"type": kind, "object": object})
	if err != nil {
		t.Fatal(err)
	}
	return string(line) + "\n"
}

func bookmark(t *testing.T) string {
	t.Helper()
	return eventLine(t, "BOOKMARK", &v1alpha1.NodeObject{ObjectMeta: metav1.ObjectMeta{
		Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
	}})
}

// watched is a manager whose watches a test writes by hand.
type watched struct {
	t *testing.T
	// mu orders what the test and the watch do with the fields below: the watch holds it, and
	// sleep takes it.
	mu     sync.Mutex
	watch  *objectWatch
	store  *objects.Store
	needed atomic.Bool
	logged []string
	// changes are what the store has reported.
	changes [][]apiobjects.Ref
	// away is the status with which watches are refused; 0 takes them.
	away int
	// begun are the times at which watches began, since the first.
	begun []time.Duration
	start time.Time
	body  *io.PipeWriter
}

// RoundTrip implements http.RoundTripper.
func (m *watched) RoundTrip(r *http.Request) (*http.Response, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begun = append(m.begun, time.Since(m.start))
	if m.away != 0 {
		return &http.Response{StatusCode: m.away, Body: io.NopCloser(strings.NewReader("not here")), Request: r}, nil
	}
	reader, writer := io.Pipe()
	m.body = writer
	context.AfterFunc(r.Context(), func() { _ = reader.CloseWithError(r.Context().Err()) })
	return &http.Response{StatusCode: http.StatusOK, Body: reader, Request: r, Header: http.Header{"Content-Type": {"application/json"}}}, nil
}

// withWatch runs test with a watch that runs, in a bubble.
func withWatch(t *testing.T, test func(m *watched)) {
	synctest.Test(t, func(t *testing.T) {
		m := &watched{t: t, start: time.Now()}
		m.store = objects.NewStore(func(_ string, refs []apiobjects.Ref) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.changes = append(m.changes, refs)
		})
		m.needed.Store(true)
		client, err := newObjectClient(&rest.Config{Host: "http://api"}, &http.Client{Transport: m}, "node-1")
		if err != nil {
			t.Fatal(err)
		}
		log := funcr.New(func(_, args string) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.logged = append(m.logged, args)
		}, funcr.Options{})
		m.watch = &objectWatch{client: client, store: m.store, needed: m.needed.Load, kicked: make(chan struct{}, 1), log: log}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.watch.run(ctx) }()
		synctest.Wait()
		test(m)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// sleep lets time pass, and returns when nothing is left to do.
func (m *watched) sleep(d time.Duration) {
	m.mu.Lock()
	m.mu.Unlock() //nolint:staticcheck // What the test did before is done.
	time.Sleep(d)
	synctest.Wait()
}

// send writes events and waits until they have been dealt with.
func (m *watched) send(lines ...string) {
	m.t.Helper()
	for _, line := range lines {
		if _, err := io.WriteString(m.body, line); err != nil {
			m.t.Fatal(err)
		}
	}
	m.sleep(2 * gathering)
}

// end ends the watch and waits until the next has begun.
func (m *watched) end() {
	m.t.Helper()
	begun := len(m.begun)
	_ = m.body.Close()
	m.sleep(lastPause)
	if len(m.begun) == begun {
		m.t.Fatal("no other watch was begun")
	}
}

// want says what the store has: "" is an object that was not received.
func (m *watched) want(values map[string]string) {
	m.t.Helper()
	for name, want := range values {
		secret, err := m.store.Secret("ns", name)
		switch {
		case want == "" && !errors.Is(err, objects.ErrNotReceived):
			m.t.Errorf("%s: error %v, want that it was not received", name, err)
		case want != "" && (err != nil || string(secret.Data["key"]) != want):
			m.t.Errorf("%s: %v, %v, want %s", name, secret, err, want)
		}
	}
}

func TestWhatTheManagerSendsIsInTheStore(t *testing.T) {
	withWatch(t, func(m *watched) {
		m.send(eventLine(t, "ADDED", nodeObject("a", "1")), eventLine(t, "ADDED", nodeObject("b", "1")))
		m.want(map[string]string{"a": "1", "b": "1"}) // without waiting for all of them
		m.send(bookmark(t), eventLine(t, "MODIFIED", nodeObject("a", "2")), eventLine(t, "DELETED", nodeObject("b", "1")))
		m.want(map[string]string{"a": "2", "b": ""})
		m.send(eventLine(t, "ADDED", nodeObject("b", "3")), eventLine(t, "BOOKMARK", &v1alpha1.NodeObject{}))
		m.want(map[string]string{"a": "2", "b": "3"})
	})
}

func TestWhatAWatchDoesNotSendIsDroppedAtItsBookmark(t *testing.T) {
	withWatch(t, func(m *watched) {
		m.send(eventLine(t, "ADDED", nodeObject("a", "1")), eventLine(t, "ADDED", nodeObject("b", "1")), bookmark(t))
		m.end()
		m.want(map[string]string{"a": "1", "b": "1"})
		m.send(eventLine(t, "ADDED", nodeObject("a", "2")))
		m.want(map[string]string{"a": "2", "b": "1"})
		m.send(bookmark(t))
		m.want(map[string]string{"a": "2", "b": ""})
	})
}

func TestWhatIsKeptIsDroppedOnceItIsNotNeeded(t *testing.T) {
	withWatch(t, func(m *watched) {
		var needed atomic.Bool
		needed.Store(true)
		m.store.KeepWhile(func(objects.Key) bool { return needed.Load() })
		m.send(eventLine(t, "ADDED", nodeObject("a", "1")), bookmark(t), eventLine(t, "DELETED", nodeObject("a", "1")))
		m.want(map[string]string{"a": "1"})
		needed.Store(false)
		m.sleep(sweepInterval)
		m.want(map[string]string{"a": ""})
	})
}

func TestAnotherWatchBeginsAfterLongerAndLongerPauses(t *testing.T) {
	withWatch(t, func(m *watched) {
		m.send(eventLine(t, "ADDED", nodeObject("a", "1")), bookmark(t))
		m.away, m.begun, m.start = http.StatusNotFound, nil, time.Now()
		_ = m.body.Close()
		m.sleep(5 * time.Minute)
		pause := firstPause
		for i := range m.begun {
			got := m.begun[i]
			if i > 0 {
				got -= m.begun[i-1]
			}
			if got < pause/2 || got > pause {
				t.Errorf("pause %d is %s, want %s to %s", i, got, pause/2, pause)
			}
			pause = min(2*pause, lastPause)
		}
		if len(m.begun) < 14 || len(m.begun) > 26 {
			t.Errorf("%d watches in five minutes", len(m.begun))
		}
		m.want(map[string]string{"a": "1"})
		if len(m.logged) != 1 || !strings.Contains(m.logged[0], "the server could not find the requested resource") {
			t.Errorf("logged %q, want the reason once", m.logged)
		}

		m.away = 0
		m.sleep(lastPause)
		m.send(bookmark(t))
		m.want(map[string]string{"a": ""})
		m.start, m.begun = time.Now(), nil
		m.end()
		if m.begun[0] > firstPause {
			t.Errorf("after a watch that worked the pause is %s", m.begun[0])
		}
	})
}

func TestNothingIsWatchedWithoutNeed(t *testing.T) {
	withWatch(t, func(m *watched) {
		m.send(eventLine(t, "ADDED", nodeObject("a", "1")), bookmark(t))
		m.needed.Store(false)
		m.watch.kick()
		synctest.Wait()
		if _, err := io.WriteString(m.body, bookmark(t)); err == nil {
			t.Error("the watch continues")
		}
		time.Sleep(time.Hour)
		if len(m.begun) != 1 {
			t.Errorf("%d watches", len(m.begun))
		}
		m.want(map[string]string{"a": ""})
		m.needed.Store(true)
		m.watch.kick()
		synctest.Wait()
		m.send(eventLine(t, "ADDED", nodeObject("a", "2")))
		m.want(map[string]string{"a": "2"})
	})
}

func TestABadEventCostsNoObject(t *testing.T) {
	gone := &metav1.Status{Status: "Failure", Reason: metav1.StatusReasonExpired, Message: "too old", Code: 410}
	tests := map[string]struct {
		line string
		// ends: what comes after it cannot be trusted.
		ends bool
		want string
	}{
		"unknown kind":   {eventLine(t, "ADDED", &v1alpha1.NodeObject{ObjectKind: "Pod", ObjectName: "x"}), false, "objectKind"},
		"unknown state":  {eventLine(t, "ADDED", &v1alpha1.NodeObject{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}, ObjectKind: "Secret", ObjectName: "x", State: "Lost"}), false, "state"},
		"error":          {eventLine(t, "ERROR", gone), true, "too old"},
		"unknown type":   {eventLine(t, "MOVED", gone), true, "MOVED"},
		"no object":      {`{"type":"ADDED","object":[]}`, true, "decode a NodeObject"},
		"no JSON":        {"<html>\n", true, "read an event"},
		"without an end": {`{"type":"ADDED","object":{"message":"` + strings.Repeat("x", maxEvent) + `"}}`, true, "longer than"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withWatch(t, func(m *watched) {
				m.send(eventLine(t, "ADDED", nodeObject("a", "1")), bookmark(t))
				_, _ = io.WriteString(m.body, tt.line) // it may be cut off
				if !tt.ends {
					m.send(eventLine(t, "MODIFIED", nodeObject("a", "2")))
					m.want(map[string]string{"a": "2"})
				}
				m.sleep(lastPause)
				if tt.ends {
					m.want(map[string]string{"a": "1"})
				}
				if want := map[bool]int{false: 1, true: 2}[tt.ends]; len(m.begun) != want {
					t.Errorf("%d watches, want %d", len(m.begun), want)
				}
				if !strings.Contains(strings.Join(m.logged, "\n"), tt.want) {
					t.Errorf("logged %q, want %q", m.logged, tt.want)
				}
			})
		})
	}
}

// TestChangesThatComeTogetherAreOneBatch pins that a workload with many objects is woken
// once, not for each.
func TestChangesThatComeTogetherAreOneBatch(t *testing.T) {
	withWatch(t, func(m *watched) {
		var lines []string
		for i := range 10 {
			lines = append(lines, eventLine(t, "ADDED", nodeObject(fmt.Sprint(i), "1")))
		}
		m.send(lines...)
		if len(m.changes) != 1 || len(m.changes[0]) != 10 {
			t.Errorf("%d calls: %v", len(m.changes), m.changes)
		}
	})
}

// TestLargeObjectsLeaveNoBuffer pins that watches which have carried large objects hold no
// memory of their size while they wait.
func TestLargeObjectsLeaveNoBuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams = 20
		large, small := eventLine(t, "ADDED", nodeObject("a", strings.Repeat("x", 1<<20))), eventLine(t, "ADDED", nodeObject("b", "1"))
		before := heap()
		var writers []*io.PipeWriter
		for range streams {
			reader, writer := io.Pipe()
			writers = append(writers, writer)
			stream := newObjectStream(reader, func() {})
			go func() {
				for _, want := range []string{"a", "b", "a", "b"} {
					if event, err := stream.next(); err != nil || event.object.ObjectName != want {
						t.Errorf("%v, %v, want %s", event.object, err, want)
					}
				}
				if _, err := stream.next(); !errors.Is(err, io.EOF) {
					t.Errorf("at the end: %v", err)
				}
			}()
			if _, err := io.WriteString(writer, large+small+large); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if grown := heap() - before; grown > streams*(256<<10) {
			t.Errorf("%d watches that wait hold %d KiB each", streams, grown/streams>>10)
		}
		for _, writer := range writers {
			_, _ = io.WriteString(writer, small)
			_ = writer.Close()
		}
	})
}

// TestNoEventIsLostBehindALargeOne reads events that have arrived together.
func TestNoEventIsLostBehindALargeOne(t *testing.T) {
	all := eventLine(t, "ADDED", nodeObject("a", strings.Repeat("x", 1400<<10)))
	want := []string{"a"}
	for i := range 10 {
		name := fmt.Sprint("b", i)
		all += eventLine(t, "ADDED", nodeObject(name, strings.Repeat("y", 100<<10)))
		want = append(want, name)
	}
	stream := newObjectStream(io.NopCloser(strings.NewReader(all)), func() {})
	for _, name := range want {
		if event, err := stream.next(); err != nil || event.object.ObjectName != name {
			t.Fatalf("%v, %v, want %s", event.object, err, name)
		}
	}
}

// heap is how much memory is in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestWatchRequest(t *testing.T) {
	type request struct{ path, query string }
	asked := make(chan request, 1)
	c := newTestClient(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- request{r.Method + " " + r.URL.Path, r.URL.Query().Encode()}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, eventLine(t, "ADDED", nodeObject("a", "1"))+bookmark(t))
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		<-r.Context().Done()
	})
	stream, err := c.watch(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	want := request{
		"GET /apis/subresources.managedworkload.dev/v1alpha1/nodeobjects",
		"allowWatchBookmarks=true&fieldSelector=metadata.name%3Dnode-1&timeoutSeconds=3600&watch=true",
	}
	if got := <-asked; got != want {
		t.Errorf("asked %v, want %v", got, want)
	}
	if event, err := stream.next(); err != nil || event.object.ObjectName != "a" {
		t.Errorf("first event %v, %v", event, err)
	}
	if event, err := stream.next(); err != nil || !event.initialEnd() {
		t.Errorf("second event %v, %v", event, err)
	}
	stream.close() // the handler ends, or the server would not
}

func TestAnAPIThatIsNotThereIsAnAnswer(t *testing.T) {
	for code, is := range map[int]func(error) bool{
		http.StatusNotFound: apierrors.IsNotFound, http.StatusServiceUnavailable: apierrors.IsServiceUnavailable,
	} {
		c := newTestClient(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
		if _, err := c.watch(t.Context(), time.Hour); !is(err) {
			t.Errorf("%d: %v", code, err)
		}
	}
}
