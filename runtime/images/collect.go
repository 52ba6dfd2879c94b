// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// candidate is an image that is not used.
type candidate struct {
	Image
	sighting
}

// collect removes images that are too old, and others if too little is free. (kubelet
// images/image_gc_manager.go:GarbageCollect)
func (c *Collector) collect(ctx context.Context) error {
	now := time.Now()
	unused, err := c.unused(ctx, now)
	if err != nil {
		return err
	}
	if unused, err = c.freeOld(ctx, now, unused); err != nil {
		return err
	}
	disk, err := c.measure(ctx)
	if err != nil {
		return err
	}
	if disk.capacity == 0 {
		err := errors.New("invalid capacity 0 on image filesystem")
		c.config.Warn("InvalidDiskCapacity", err.Error())
		return err
	}
	percent := disk.percent()
	if percent < c.config.HighPercent {
		return nil
	}
	wanted := disk.capacity*int64(100-c.config.LowPercent)/100 - disk.available
	logr.FromContextOrDiscard(ctx).Info("Removing images: too little of their file system is free", "usedPercent", percent, "toFree", wanted)
	freed, err := c.free(ctx, wanted, now, unused)
	if err != nil || freed >= wanted {
		return err
	}
	message := fmt.Sprintf("Insufficient free disk space on the node's image filesystem (%d%% of %s used). "+
		"Failed to free sufficient space by deleting unused images (freed %d bytes). "+
		"Investigate disk usage, as it could be used by active images, logs, volumes, or other data.", percent, formatSize(disk.capacity), freed)
	c.config.Warn("FreeDiskSpaceFailed", message)
	return errors.New(message)
}

// space is what a file system has, in bytes.
type space struct{ capacity, available int64 }

func (c *Collector) measure(ctx context.Context) (space, error) {
	capacity, available, err := c.config.Filesystem(ctx)
	return space{capacity, min(available, capacity)}, err
}

// percent is how much is in use; 0 of nothing.
func (s space) percent() int {
	if s.capacity == 0 {
		return 0
	}
	return 100 - int(s.available*100/s.capacity)
}

// formatSize writes a size as the kubelet does.
func formatSize(bytes int64) string {
	if bytes < 1024 {
		return fmt.Sprintf("%d B", bytes)
	}
	size, units := float64(bytes), []string{"KiB", "MiB", "GiB", "TiB"}
	for len(units) > 1 && size >= 1024*1024 {
		size, units = size/1024, units[1:]
	}
	return fmt.Sprintf("%.1f %s", size/1024, units[0])
}

// unused notes which images there are and which are used, and returns those that are not, the
// least recently used first. It fails if that is not known of one. (kubelet
// images/image_gc_manager.go:detectImages, imagesInEvictionOrder)
func (c *Collector) unused(ctx context.Context, now time.Time) ([]candidate, error) {
	all, err := c.config.Store.ListImages(ctx)
	if err != nil {
		return nil, err
	}
	used, err := c.used(ctx, all)
	if err != nil {
		return nil, err
	}
	before := c.seen
	c.seen = make(map[string]*sighting, len(all))
	var unused []candidate
	for _, image := range all {
		seen := before[image.ID]
		if seen == nil {
			seen = &sighting{first: now}
		}
		c.seen[image.ID] = seen
		switch {
		case used[image.ID]:
			seen.used = time.Now()
		case !image.Pinned:
			unused = append(unused, candidate{image, *seen})
		}
	}
	slices.SortStableFunc(unused, func(a, b candidate) int {
		return cmp.Or(a.used.Compare(b.used), a.first.Compare(b.first), cmp.Compare(a.ID, b.ID))
	})
	return unused, nil
}

// freeOld removes the images that were not used for too long, and known for as long; it returns
// the others. (kubelet images/image_gc_manager.go:freeOldImages)
func (c *Collector) freeOld(ctx context.Context, now time.Time, unused []candidate) ([]candidate, error) {
	most := c.config.MaxAge
	if most == 0 {
		return unused, nil
	}
	var left []candidate
	var errs []error
	for _, image := range unused {
		if since := latest(image.first, image.used); now.Sub(since) <= most {
			left = append(left, image)
			continue
		}
		removed, err := c.remove(ctx, image, now, reasonAge)
		if err != nil {
			errs = append(errs, err)
		}
		if !removed {
			left = append(left, image)
		}
	}
	c.forget(ctx)
	if len(errs) > 0 {
		return left, fmt.Errorf("wanted to free images older than %v, encountered errors in image deletion: %w", most, utilerrors.NewAggregate(errs))
	}
	return left, nil
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// free removes images until as many bytes are freed, and returns how many are: by the sizes
// that the runtime reports, which are those of compressed images, or by what the disk has
// more, whichever is more. (kubelet images/image_gc_manager.go:freeSpace)
func (c *Collector) free(ctx context.Context, wanted int64, now time.Time, unused []candidate) (freed int64, err error) {
	var errs []error
	var sizes int64
	before, _ := c.measure(ctx) // without an answer the sizes count
	for _, image := range unused {
		if freed >= wanted || ctx.Err() != nil {
			break
		}
		if old := image.first.Add(c.config.MinAge); now.Before(old) {
			c.tryAgain(old) // pulled for a container that is about to start
			continue
		}
		removed, err := c.remove(ctx, image, now, reasonSpace)
		if err != nil {
			errs = append(errs, err)
		}
		if !removed {
			continue
		}
		sizes += image.Size
		after, err := c.measure(ctx)
		if freed = max(freed, sizes); err == nil {
			freed = max(freed, after.available-before.available)
		}
	}
	c.forget(ctx)
	if freed >= wanted {
		c.again = time.Time{}
	}
	if len(errs) > 0 {
		return freed, fmt.Errorf("wanted to free %d bytes, but freed %d bytes space with errors in image deletion: %w", wanted, freed, utilerrors.NewAggregate(errs))
	}
	return freed, nil
}

// tryAgain has images collected at a time, unless that is done before.
func (c *Collector) tryAgain(at time.Time) {
	if c.again.IsZero() || at.Before(c.again) {
		c.again = at
	}
}

// remove removes an image unless a start is about to use it.
func (c *Collector) remove(ctx context.Context, image candidate, asked time.Time, reason string) (removed bool, err error) {
	release, ok := c.config.Records.claim(image.ID, asked)
	if !ok {
		c.tryAgain(time.Now().Add(aboutToUse))
		return false, nil
	}
	defer release()
	logr.FromContextOrDiscard(ctx).Info("Removing an image", "image", image.ID, "names", image.Names, "size", image.Size, "reason", reason)
	if err := c.config.Store.RemoveImage(ctx, image.ID); err != nil {
		return false, err
	}
	delete(c.seen, image.ID)
	c.removed.WithLabelValues(reason).Inc()
	return true, nil
}

// forget forgets who may use the images that are gone.
func (c *Collector) forget(ctx context.Context) {
	if err := c.config.Records.forgetGone(ctx); err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "Failed to forget the pulls of removed images; retrying", "in", interval.String())
	}
}
