// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// server is an API server that can be away.
type server struct {
	mu sync.Mutex
	// fails is what it answers, nil while it works.
	fails   error
	tries   int
	lists   int
	watches []*watch.FakeWatcher
}

func (s *server) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = err
	for _, w := range s.watches {
		w.Stop()
	}
	s.watches = nil
}

func (s *server) listerWatcher() *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.tries++
			s.lists++
			return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, s.fails
		},
		WatchFuncWithContext: func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.tries++
			if s.fails != nil {
				return nil, s.fails
			}
			w := watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: 1})
			if o.SendInitialEvents != nil {
				w.Action(watch.Bookmark, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
					ResourceVersion: "1", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
				}})
			}
			s.watches = append(s.watches, w)
			return w, nil
		},
	}
}

var resource = schema.GroupResource{Resource: "pods"}

// However long and often an API server was away, what follows its objects is back within LongestPause, and it is not asked
// much more often than that.
func TestFollowedSoonAfterAnOutage(t *testing.T) {
	for name, fails := range map[string]error{
		"refused":                syscall.ECONNREFUSED,
		"roles are not read yet": apierrors.NewForbidden(resource, "", errors.New("not yet")),
		"not ready":              apierrors.NewServiceUnavailable("starting"),
		"the kind is not known":  apierrors.NewNotFound(resource, ""),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{}
				informer := New(s.listerWatcher(), &corev1.Pod{}, 0, cache.Indexers{})
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				wg.Go(func() { informer.RunWithContext(ctx) })
				defer wg.Wait()
				defer cancel()
				const outage = 5 * time.Minute
				for range 5 {
					time.Sleep(20 * time.Second)
					synctest.Wait()
					s.mu.Lock()
					following, before := len(s.watches), s.tries
					s.mu.Unlock()
					if following == 0 {
						t.Fatal("it is not followed")
					}
					s.fail(fails)
					time.Sleep(outage)
					s.mu.Lock()
					if tries := s.tries - before; tries > int(outage/(LongestPause/2))+10 {
						t.Errorf("%d tries in %v", tries, outage)
					}
					s.mu.Unlock()
					s.fail(nil)
					time.Sleep(LongestPause)
					synctest.Wait()
					s.mu.Lock()
					if len(s.watches) == 0 {
						t.Errorf("it is not followed %v after the outage", LongestPause)
					}
					s.mu.Unlock()
				}
			})
		})
	}
}

// What a reflector answers by another request reaches it at once.
func TestErrorsOfTheRequest(t *testing.T) {
	tooLarge := apierrors.NewTimeoutError("Too large resource version", 1)
	tooLarge.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
	for name, err := range map[string]error{
		"overloaded":  apierrors.NewTooManyRequests("later", 1),
		"expired":     apierrors.NewResourceExpired("too old"),
		"gone":        &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusGone}},
		"never had":   tooLarge,
		"cannot":      apierrors.NewInvalid(schema.GroupKind{}, "", nil),
		"bad request": apierrors.NewBadRequest("no"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{fails: err}
				lw := cache.ToListerWatcherWithContext(Patient(s.listerWatcher()))
				if _, got := lw.ListWithContext(t.Context(), metav1.ListOptions{}); !errors.Is(got, err) {
					t.Errorf("list: %v", got)
				}
				if _, got := lw.WatchWithContext(t.Context(), metav1.ListOptions{}); !errors.Is(got, err) {
					t.Errorf("watch: %v", got)
				}
				if s.tries != 2 {
					t.Errorf("%d tries, want 2", s.tries)
				}
			})
		})
	}
}

// A server that streams no list is asked for one soon.
func TestServerThatStreamsNoList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		from := s.listerWatcher()
		stream := from.WatchFuncWithContext
		from.WatchFuncWithContext = func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			if o.SendInitialEvents != nil {
				return nil, apierrors.NewForbidden(resource, "", errors.New("no stream"))
			}
			return stream(ctx, o)
		}
		informer := New(from, &corev1.Pod{}, 0, cache.Indexers{})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { informer.RunWithContext(ctx) })
		defer wg.Wait()
		defer cancel()
		time.Sleep(time.Minute)
		synctest.Wait()
		if !informer.HasSynced() {
			t.Error("nothing is known")
		}
	})
}

// What is retried is logged once for each reason.
func TestRetriesAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged []string
		log := funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{})
		ctx, cancel := context.WithTimeout(logr.NewContext(t.Context(), log), time.Minute)
		defer cancel()
		s := &server{fails: syscall.ECONNREFUSED}
		time.AfterFunc(30*time.Second, func() { s.fail(apierrors.NewForbidden(resource, "", errors.New("no role"))) })
		_, _ = cache.ToListerWatcherWithContext(Patient(s.listerWatcher())).ListWithContext(ctx, metav1.ListOptions{}) // it ends with its context
		if len(logged) != 2 || !strings.Contains(logged[0], "connection refused") || !strings.Contains(logged[1], "no role") {
			t.Errorf("logged %q", logged)
		}
	})
}

// A try that is waited for ends with its context.
func TestTriesEndWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{fails: syscall.ECONNREFUSED}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if _, err := cache.ToListerWatcherWithContext(Patient(s.listerWatcher())).ListWithContext(ctx, metav1.ListOptions{}); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Error(err)
		}
		if took := time.Since(began); took != time.Minute {
			t.Errorf("it ended after %v", took)
		}
	})
}
