// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/managedworkload/managedworkload/runtime/panics"
)

// Image is one that the runtime has.
type Image struct {
	ID string
	// Names are its tags and digests.
	Names []string
	Size  int64
	// Pinned: the runtime wants it to stay.
	Pinned bool
}

// Store is what a Collector asks of the runtime.
type Store interface {
	ListImages(ctx context.Context) ([]Image, error)
	// ImagesOfContainers are IDs or names of all images that containers have, whoever made
	// them, also those that have exited: what they start from and what they mount.
	ImagesOfContainers(ctx context.Context) ([]string, error)
	// ImageRef is the ID of an image by its name; empty if the runtime does not have it.
	ImageRef(ctx context.Context, image string) (string, error)
	RemoveImage(ctx context.Context, id string) error
}

// Policy says when images are collected. (kubelet images/image_gc_manager.go:ImageGCPolicy)
type Policy struct {
	// From HighPercent of the file system in use on, images are removed until LowPercent is.
	HighPercent, LowPercent int
	// MinAge is how long an image stays after it was first seen.
	MinAge time.Duration
	// MaxAge is how long an image stays that is not used, whatever is free, after it was used or
	// first seen; 0 is no bound.
	MaxAge time.Duration
}

// Check refuses what cannot be kept; it names the flags.
func (p Policy) Check() error {
	var errs []error
	if p.HighPercent < 0 || p.HighPercent > 100 {
		errs = append(errs, fmt.Errorf("--image-gc-high-threshold must be between 0 and 100, not %d", p.HighPercent))
	}
	if p.LowPercent < 0 || p.LowPercent > 100 {
		errs = append(errs, fmt.Errorf("--image-gc-low-threshold must be between 0 and 100, not %d", p.LowPercent))
	}
	if p.LowPercent > p.HighPercent {
		errs = append(errs, fmt.Errorf("--image-gc-low-threshold=%d must not be above --image-gc-high-threshold=%d", p.LowPercent, p.HighPercent))
	}
	if p.MinAge < 0 {
		errs = append(errs, fmt.Errorf("--minimum-image-ttl-duration must not be negative, not %v", p.MinAge))
	}
	if p.MaxAge < 0 || p.MaxAge > 0 && p.MaxAge <= p.MinAge {
		errs = append(errs, fmt.Errorf("--image-maximum-gc-age=%v must be 0 or above --minimum-image-ttl-duration=%v", p.MaxAge, p.MinAge))
	}
	return errors.Join(errs...)
}

// never is whether images are never collected by themselves. (kubelet
// kubelet.go:StartGarbageCollection)
func (p Policy) never() bool { return p.HighPercent == 100 && p.MaxAge == 0 }

// CollectorConfig is what a Collector works with. Registry may be nil.
type CollectorConfig struct {
	Policy
	Store Store
	// Records forgets what is removed, and says what is about to be used.
	Records *Manager
	// Wanted are IDs and names of images that workloads may need soon.
	Wanted func() []string
	// Filesystem is the size of the images' file system, and what is free of it.
	Filesystem func(ctx context.Context) (capacity, available int64, err error)
	// Warn writes an event about the node.
	Warn     func(reason, message string)
	Logger   logr.Logger
	Registry prometheus.Registerer
}

// Collector removes images that are not used. It is safe for concurrent use.
// (kubelet images/image_gc_manager.go)
type Collector struct {
	config  CollectorConfig
	removed *prometheus.CounterVec

	// collecting holds a token for a collection under way. What follows belongs to who has it.
	collecting chan struct{}
	// seen is what is known of the images, by ID.
	seen map[string]*sighting
	// again is when an image gets old enough that the last collection would have removed;
	// zero if there is none.
	again time.Time
	// failed: the last collection has.
	failed bool
}

// sighting is when an image was first seen, and when it was last seen in use.
type sighting struct{ first, used time.Time }

// NewCollector returns a collector that does nothing before Run or Reclaim.
func NewCollector(config CollectorConfig) *Collector {
	c := &Collector{
		config: config, seen: map[string]*sighting{}, collecting: make(chan struct{}, 1),
		removed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_image_garbage_collected_total",
			Help: "Images that were removed because the disk was full (space) or because they were not used for long (age).",
		}, []string{"reason"}),
	}
	if config.Registry != nil {
		config.Registry.MustRegister(c.removed)
	}
	return c
}

// Reasons of a removal, as labels.
const (
	reasonAge   = "age"
	reasonSpace = "space"
)

// Run collects images until ctx is done: in turns, after a pull that has filled the disk, and
// once images are old enough that had to stay.
func (c *Collector) Run(ctx context.Context) error {
	turn := time.Now().Add(interval)
	c.guarded(ctx, c.turn)
	for {
		timer := time.NewTimer(time.Until(c.next(ctx, turn)))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-c.config.Records.pulledOne:
			timer.Stop()
			c.guarded(ctx, c.afterPull)
		case <-timer.C:
			if !time.Now().Before(turn) {
				turn = time.Now().Add(interval)
			}
			c.guarded(ctx, c.turn)
		}
	}
}

// alone waits until no other collection is under way; release is called at the end of this one.
func (c *Collector) alone(ctx context.Context) (release func(), err error) {
	select {
	case c.collecting <- struct{}{}:
		return func() { <-c.collecting }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for a collection of images that is under way: %w", context.Cause(ctx))
	}
}

// next is when to collect: at the latest with the turn.
func (c *Collector) next(ctx context.Context, turn time.Time) time.Time {
	release, err := c.alone(ctx)
	if err != nil {
		return turn
	}
	defer release()
	if !c.again.IsZero() && c.again.Before(turn) {
		return c.again
	}
	return turn
}

func (c *Collector) guarded(ctx context.Context, do func(context.Context) error) {
	release, err := c.alone(ctx)
	if err != nil {
		return
	}
	defer release()
	err = panics.Contain(c.config.Logger, "collection of images", func() error { return do(ctx) })
	if ctx.Err() == nil {
		c.note(err)
	}
}

// turn collects, or only notes which images are used.
func (c *Collector) turn(ctx context.Context) error {
	c.again = time.Time{}
	if c.config.never() {
		_, err := c.unused(ctx, time.Now())
		return err
	}
	return c.collect(ctx)
}

// afterPull collects if the disk is too full; else it only notes which images there are, for
// their age counts from now.
func (c *Collector) afterPull(ctx context.Context) error {
	full, err := c.measure(ctx)
	if err == nil && full.percent() >= c.config.HighPercent {
		return c.turn(ctx)
	}
	all, err := c.config.Store.ListImages(ctx)
	for _, image := range all {
		if c.seen[image.ID] == nil {
			c.seen[image.ID] = &sighting{first: time.Now()}
		}
	}
	return err
}

// note reports a failure; the first of several has no event. (kubelet
// kubelet.go:StartGarbageCollection)
func (c *Collector) note(err error) {
	again := c.failed
	c.failed = err != nil
	if err == nil {
		return
	}
	c.config.Logger.Error(err, "Failed to collect images; retrying", "in", interval.String())
	if again && !c.config.never() {
		c.config.Warn("ImageGCFailed", err.Error())
	}
}

// Reclaim removes all images that may be removed, whatever is free. (kubelet
// images/image_gc_manager.go:DeleteUnusedImages)
func (c *Collector) Reclaim(ctx context.Context) error {
	release, err := c.alone(ctx)
	if err != nil {
		return err
	}
	defer release()
	now := time.Now()
	unused, err := c.unused(ctx, now)
	if err != nil {
		return err
	}
	_, err = c.free(ctx, math.MaxInt64, now, unused)
	c.again = time.Time{}
	return err
}
