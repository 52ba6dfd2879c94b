// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
)

// store is a runtime's images on a disk of their own, and a node with one workload.
type store struct {
	mu         sync.Mutex
	images     map[string]Image
	containers []string
	wanted     []string
	byName     map[string]string
	// capacity of the disk; what images do not use is free, but for other.
	capacity, other int64
	removed         []string
	events          []string
	fails           map[string]error // removals and questions
	removing        func(id string)  // called by removals
}

const gib = 1 << 30

// newStore has images of 1 GiB each on a disk of 10 GiB.
func newStore(ids ...string) *store {
	s := &store{images: map[string]Image{}, byName: map[string]string{}, capacity: 10 * gib, fails: map[string]error{}}
	for _, id := range ids {
		s.images[id] = Image{ID: id, Names: []string{"r.example/" + id + ":v1"}, Size: gib}
	}
	return s
}

func (s *store) ListImages(context.Context) ([]Image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Image
	for _, id := range slices.Sorted(maps.Keys(s.images)) {
		all = append(all, s.images[id])
	}
	return all, s.fails["ListImages"]
}

func (s *store) ImagesOfContainers(context.Context) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.containers, s.fails["ImagesOfContainers"]
}

func (s *store) ImageRef(_ context.Context, image string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byName[image], s.fails["ImageRef"]
}

func (s *store) RemoveImage(_ context.Context, id string) error {
	if s.removing != nil {
		s.removing(id)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fails[id]; err != nil {
		return err
	}
	delete(s.images, id)
	s.removed = append(s.removed, id)
	return nil
}

func (s *store) disk(context.Context) (capacity, available int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	available = s.capacity - s.other
	for _, image := range s.images {
		available -= image.Size
	}
	return s.capacity, available, s.fails["disk"]
}

// policy is the kubelet's default.
var policy = Policy{HighPercent: 85, LowPercent: 80, MinAge: 2 * time.Minute}

func (s *store) collector(policy Policy) (*Collector, *Manager) {
	records := New(Config{Runtime: s}, logr.Discard())
	return NewCollector(CollectorConfig{
		Policy: policy, Store: s, Records: records, Wanted: func() []string { return s.wanted }, Filesystem: s.disk,
		Warn: func(reason, message string) { s.change(func() { s.events = append(s.events, reason+": "+message) }) }, Logger: logr.Discard(),
	}), records
}

func (s *store) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *store) expect(t *testing.T, when string, want ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.removed, want) {
		t.Errorf("%s: removed %q, want %q", when, s.removed, want)
	}
	s.removed = nil
}

// now has a turn.
func (c *Collector) now(t *testing.T) error {
	return c.turn(t.Context())
}

// From 85 percent in use on, images that are not used go, the least recently used first,
// until 80 percent are.
func TestCollectionBetweenThresholds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore("a", "b", "c", "d")
		s.containers = []string{"a", "b", "c"}
		c, _ := s.collector(policy)
		turn := func() {
			if err := c.now(t); err != nil {
				t.Error(err)
			}
			time.Sleep(interval)
		}
		s.other = 44 * gib / 10 // 84 %
		turn()
		s.containers = []string{"a", "c"}
		turn()
		s.containers = []string{"c"}
		turn()
		s.expect(t, "below the high threshold")
		s.other = 54 * gib / 10 // 94 %: two have to go, d was never used
		turn()
		s.expect(t, "above it", "d", "b")
		s.containers = nil
		turn()
		s.expect(t, "below it again")
		if len(s.events) > 0 {
			t.Errorf("events %q", s.events)
		}
	})
}

// What containers have, what workloads want, what is pinned, what was just pulled and what a
// start is about to use stays, whatever is free.
func TestImagesThatStay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore("exited", "by-tag", "pinned", "short", "prepared", "starting", "unused")
		s.containers = []string{"exited", "r.example/by-tag:v1", "of-an-image-that-is-gone"}
		s.wanted = []string{"short", "prepared", "///"}
		s.byName["short:latest"] = "short"
		s.wanted = append(s.wanted, "short")
		pinned := s.images["pinned"]
		pinned.Pinned = true
		s.images["pinned"] = pinned
		c, records := s.collector(policy)
		reclaim := func() {
			if err := c.Reclaim(t.Context()); err != nil {
				t.Error(err)
			}
		}
		reclaim()
		s.expect(t, "all are new")
		time.Sleep(policy.MinAge)
		s.images["pulled"] = Image{ID: "pulled"}
		if there, err := records.For(pod("a"), "r.example/starting:v1").Use(t.Context(), "starting"); !there || err != nil {
			t.Errorf("an image that is there is not: %v", err)
		}
		reclaim()
		s.expect(t, "one is not used", "unused")
		time.Sleep(policy.MinAge)
		s.containers, s.wanted = nil, nil
		reclaim()
		s.expect(t, "none is used", "starting", "pulled", "by-tag", "exited", "prepared", "short")
	})
}

// Where it is not known what is used, nothing is removed.
func TestNothingIsCollectedBlindly(t *testing.T) {
	t.Parallel()
	for _, question := range []string{"ListImages", "ImagesOfContainers", "ImageRef"} {
		synctest.Test(t, func(t *testing.T) {
			s := newStore("a")
			s.other, s.containers = 9*gib, []string{"app"}
			c, _ := s.collector(policy)
			time.Sleep(time.Hour)
			s.fails[question] = errors.New("away")
			if err := c.Reclaim(t.Context()); err == nil {
				t.Errorf("%s: no error", question)
			}
			if err := c.now(t); err == nil {
				t.Errorf("%s: no error", question)
			}
			s.expect(t, question)
		})
	}
}

// The name in a template that the runtime fails to resolve, such as the beginning of several IDs,
// keeps what it names, and no other image from being removed.
func TestNamesThatTheRuntimeFailsToResolve(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		wanted  string
		removed []string
	}{
		"the beginning of two IDs":           {"sha256:a", []string{"sha256:a1", "sha256:a2", "sha256:b1"}},
		"the beginning of one":               {"sha256:b", []string{"sha256:a1", "sha256:a2"}},
		"the beginning of one, without kind": {"b1", []string{"sha256:a1", "sha256:a2"}},
		"without a registry":                 {"team/app:v1", []string{"sha256:a1", "sha256:a2"}},
		"without registry and tag":           {"app", []string{"sha256:a1", "sha256:b1"}},
		"with another tag":                   {"team/app:v2", []string{"sha256:a1", "sha256:a2", "sha256:b1"}},
		"with tag and digest":                {"r.example/x:v9@" + digest, []string{"sha256:a2", "sha256:b1"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStore("sha256:a1", "sha256:a2", "sha256:b1")
				s.rename("sha256:a1", "r.example/x@"+digest)
				s.rename("sha256:a2", "docker.io/library/app:latest")
				s.rename("sha256:b1", "r.example/team/app:v1")
				s.wanted = []string{tt.wanted}
				s.fails["ImageRef"] = errors.New("ambiguous digest string")
				c, _ := s.collector(policy)
				if err := c.now(t); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Hour)
				if err := c.Reclaim(t.Context()); err != nil {
					t.Error(err)
				}
				s.expect(t, name, tt.removed...)
			})
		})
	}
}

// digest is one of a manifest.
const digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// rename gives an image another name.
func (s *store) rename(id, name string) {
	image := s.images[id]
	image.Names = []string{name}
	s.images[id] = image
}

// Too little that can be removed, and a disk of no size, are events about the node, in the
// kubelet's words; a collection that fails again is one, too.
func TestCollectionFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore("a")
		s.other, s.containers = 9*gib, []string{"a"}
		c, _ := s.collector(policy)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		// expect are the events of a turn, after which something changes.
		expect := func(change func(), want ...string) {
			t.Helper()
			synctest.Wait()
			s.change(func() {
				if !slices.Equal(s.events, want) {
					t.Errorf("events %q, want %q", s.events, want)
				}
				s.events = nil
				change()
			})
			time.Sleep(interval)
		}
		insufficient := "Insufficient free disk space on the node's image filesystem (100% of 10.0 GiB used). " +
			"Failed to free sufficient space by deleting unused images (freed 0 bytes). " +
			"Investigate disk usage, as it could be used by active images, logs, volumes, or other data."
		expect(func() { s.capacity = 0 }, "FreeDiskSpaceFailed: "+insufficient)
		expect(func() {
			s.capacity, s.other, s.containers = 10*gib, 8*gib, nil
			s.fails["a"] = errors.New("no")
		}, "InvalidDiskCapacity: invalid capacity 0 on image filesystem", "ImageGCFailed: invalid capacity 0 on image filesystem")
		expect(func() { delete(s.fails, "a") },
			"ImageGCFailed: wanted to free 1073741824 bytes, but freed 0 bytes space with errors in image deletion: no")
		expect(func() {})
		s.expect(t, "in the end", "a")
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// With a maximum age, images that were not used for so long go, whatever is free, but not
// before it is known for so long.
func TestMaximumAge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore("used", "old")
		s.containers = []string{"used"}
		aged := policy
		aged.MaxAge = time.Hour
		c, _ := s.collector(aged)
		for range 12 {
			if err := c.now(t); err != nil {
				t.Error(err)
			}
			time.Sleep(interval)
		}
		s.expect(t, "within the hour")
		time.Sleep(time.Second)
		if err := c.now(t); err != nil {
			t.Error(err)
		}
		s.expect(t, "after it", "old")
	})
}

// An image that nothing uses yet is as old as it is known: one that was put on the node a second ago
// stays, however long the shim runs.
func TestMaximumAgeOfANewImage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore("used")
		s.containers = []string{"used"}
		aged := policy
		aged.MaxAge = time.Hour
		c, _ := s.collector(aged)
		for range 13 {
			if err := c.now(t); err != nil {
				t.Error(err)
			}
			time.Sleep(interval)
		}
		s.change(func() { s.images["new"] = Image{ID: "new", Names: []string{"r.example/new:v1"}, Size: gib} })
		for range 13 {
			if err := c.now(t); err != nil {
				t.Error(err)
			}
			s.expect(t, "within its first hour")
			time.Sleep(interval)
		}
		if err := c.now(t); err != nil {
			t.Error(err)
		}
		s.expect(t, "after it", "new")
	})
}

// A removal that hangs in the runtime does not hold up those who wait for a collection of their own
// for as long.
func TestReclaimBesideACollectionThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore("1", "2", "3", "4", "5", "6", "7", "8", "9")
		at := policy
		at.MinAge = 0
		c, _ := s.collector(at)
		held := make(chan struct{})
		s.removing = func(string) { <-held }
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		synctest.Wait()
		short, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		back := make(chan error, 1)
		go func() { back <- c.Reclaim(short) }()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		select {
		case err := <-back:
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v", err)
			}
		default:
			t.Error("does not come back a second after its context ended")
		}
		close(held)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A high threshold of 100 percent turns collection off; what pressure asks for is removed.
func TestNoCollection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore("a")
		s.other = 9 * gib
		c, _ := s.collector(Policy{HighPercent: 100, LowPercent: 80, MinAge: time.Minute})
		for range 2 {
			if err := c.now(t); err != nil {
				t.Error(err)
			}
			time.Sleep(interval)
		}
		s.expect(t, "off")
		if err := c.Reclaim(t.Context()); err != nil {
			t.Error(err)
		}
		s.expect(t, "asked for", "a")
	})
}

// A start that wants an image that is being removed waits, and learns that it may be gone;
// the record of its pull is gone with it.
func TestStartDuringARemoval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore("a")
		c, records := s.collector(policy)
		records.setRecord(&record{Ref: "a", Updated: time.Now()})
		if err := c.now(t); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		result := make(chan bool, 1)
		s.removing = func(string) {
			go func() {
				there, err := records.For(pod("a"), "r.example/a:v1").Use(t.Context(), "a")
				result <- there || err != nil
			}()
			synctest.Wait()
			if len(result) > 0 {
				t.Error("a start does not wait for the removal of its image")
			}
		}
		if err := c.Reclaim(t.Context()); err != nil {
			t.Fatal(err)
		}
		if <-result {
			t.Error("an image that was removed counts as there")
		}
		s.expect(t, "reclaimed", "a")
		if len(records.records) != 0 {
			t.Error("the record of its pull stays")
		}
	})
}

// Sizes are written as the kubelet writes them.
func TestFormatSize(t *testing.T) {
	t.Parallel()
	for bytes, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536 << 10: "1.5 MiB", 10 * gib: "10.0 GiB", 1 << 40: "1.0 TiB", 5000 << 40: "5000.0 TiB",
	} {
		if got := formatSize(bytes); got != want {
			t.Errorf("%d: %q, want %q", bytes, got, want)
		}
	}
}

// A pull that fills the disk has images removed at once, or when one is old enough; the
// runtime reports the sizes of compressed images, so that the disk is measured.
func TestCollectionAfterPulls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore("a", "b", "c")
		s.other = 5 * gib
		sizes := map[string]int64{"a": gib, "b": gib, "c": gib, "d": gib}
		c, records := s.collector(policy)
		c.config.Filesystem = func(context.Context) (capacity, available int64, err error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			for id := range s.images {
				available -= sizes[id]
			}
			return s.capacity, available + s.capacity - s.other, nil
		}
		for id, image := range s.images {
			image.Size = 1000
			s.images[id] = image
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		synctest.Wait()
		time.Sleep(time.Minute)
		pull := func(id string) {
			s.mu.Lock()
			s.images[id] = Image{ID: id, Size: 1000}
			s.byName[id+":latest"] = id
			s.mu.Unlock()
			_, err := records.For(pod("a"), id).Pull(ctx, func(context.Context, *Login) (string, error) { return id, nil })
			if err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		pull("d") // 90 %
		s.expect(t, "all are younger than two minutes")
		time.Sleep(time.Minute)
		synctest.Wait()
		s.expect(t, "the first is old enough", "a")
		time.Sleep(time.Second)
		s.change(func() { s.events, sizes["e"] = nil, gib })
		pull("e")
		s.expect(t, "another pull", "b")
		s.change(func() {
			if len(s.events) > 0 {
				t.Errorf("events %q", s.events)
			}
		})
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
