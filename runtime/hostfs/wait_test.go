// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package hostfs

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestPatienceBoundsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPatience(10 * time.Second)
		release := make(chan struct{})
		dropped := 0
		hang := func() (int, error) { <-release; return 1, nil }
		drop := func(int) { dropped++ }
		start := time.Now()
		if _, err := Ask(t.Context(), p, "/nfs", hang, drop); !errors.Is(err, ErrHung) || time.Since(start) != 10*time.Second {
			t.Errorf("error %v after %v, want ErrHung after 10s", err, time.Since(start))
		}
		// A second call does not take a thread of its own.
		if err := p.Do(t.Context(), "/nfs", func() error { t.Error("called beside the first"); return nil }); !errors.Is(err, ErrHung) {
			t.Errorf("error %v, want ErrHung", err)
		}
		if err := p.Do(t.Context(), "/other", func() error { return nil }); err != nil {
			t.Errorf("another path: %v", err)
		}
		close(release)
		synctest.Wait()
		if dropped != 1 {
			t.Errorf("dropped %d late results, want 1", dropped)
		}
		if got, err := Ask(t.Context(), p, "/nfs", hang, drop); got != 1 || err != nil {
			t.Errorf("after it answered: %d, %v", got, err)
		}
	})
}

func TestPatienceEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, release := NewPatience(time.Hour), make(chan struct{})
		defer close(release)
		cause := errors.New("deleted")
		for range 2 { // the one who calls, and the one who waits for that call
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(cause) })
			if err := p.Do(ctx, "/nfs", func() error { <-release; return nil }); !errors.Is(err, cause) {
				t.Errorf("error %v, want %v", err, cause)
			}
		}
	})
}

// A call runs in a goroutine that nothing else guards.
func TestPatienceContainsAPanic(t *testing.T) {
	p := NewPatience(time.Hour)
	for range 2 { // the first one is no longer in the way of the second
		if err := p.Do(t.Context(), "/data", func() error { panic("boom") }); err == nil || errors.Is(err, ErrHung) {
			t.Errorf("error %v, want the panic", err)
		}
	}
}
