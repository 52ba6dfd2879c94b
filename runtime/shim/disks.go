// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/managedworkload/managedworkload/runtime/cri"
	"github.com/managedworkload/managedworkload/runtime/hostfs"
	"github.com/managedworkload/managedworkload/runtime/images"
	"github.com/managedworkload/managedworkload/runtime/logs"
)

// DiskOptions are the flags about logs and images on the node's disks.
type DiskOptions struct {
	// LogMaxSize is the size from which a container's log is rotated, LogMaxFiles how many
	// files it has, and LogLinks the directory of links to logs.
	LogMaxSize  string
	LogMaxFiles int
	LogLinks    string
	// Images says when images are collected.
	Images images.Policy

	logMaxSize int64
}

func (o *DiskOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.LogMaxSize, "container-log-max-size", "10Mi", "Size from which the log of a container is rotated; a negative one turns rotation off")
	flags.IntVar(&o.LogMaxFiles, "container-log-max-files", 5, "Files that the log of a container has at most, 2 or more")
	flags.StringVar(&o.LogLinks, "container-log-link-dir", "/var/log/containers",
		`Directory of links to the containers' logs, named as the kubelet's, for log collectors; "": no links`)
	flags.IntVar(&o.Images.HighPercent, "image-gc-high-threshold", 85,
		"Percent of the images' file system in use from which unused images are removed; 100: never")
	flags.IntVar(&o.Images.LowPercent, "image-gc-low-threshold", 80, "Percent of the images' file system in use down to which unused images are removed")
	flags.DurationVar(&o.Images.MinAge, "minimum-image-ttl-duration", 2*time.Minute, "Time for which an image that is not used stays after it was first seen")
	flags.DurationVar(&o.Images.MaxAge, "image-maximum-gc-age", 0, "Time after which an image that is not used is removed, whatever is free; 0: none")
}

// complete checks the flags.
func (o *DiskOptions) complete() error {
	errs := []error{o.Images.Check()}
	size, err := resource.ParseQuantity(o.LogMaxSize)
	if err != nil {
		errs = append(errs, fmt.Errorf("--container-log-max-size %q is not a quantity: %w", o.LogMaxSize, err))
	}
	o.logMaxSize = size.Value()
	if err == nil {
		errs = append(errs, (&logs.Config{MaxSize: o.logMaxSize, MaxFiles: o.LogMaxFiles}).Check())
	}
	if o.LogLinks != "" && !filepath.IsAbs(o.LogLinks) {
		errs = append(errs, fmt.Errorf("--container-log-link-dir must be an absolute path, not %q", o.LogLinks))
	}
	return errors.Join(errs...)
}

// makeLogs makes what rotates logs.
func (s *shim) makeLogs(log logr.Logger) *logs.Manager {
	return logs.New(logs.Config{
		Runtime: s.runtime, MaxSize: s.options.logMaxSize, MaxFiles: s.options.LogMaxFiles,
		Links: s.options.LogLinks, Root: s.dirs.LogRoot(), Logger: log.WithName("logs"), Registry: s.counted,
	})
}

// makeImageCollector makes what removes images that are not used.
func (s *shim) makeImageCollector(log logr.Logger) *images.Collector {
	disk := &imageDisk{runtime: s.runtime, root: hostfs.Root(s.options.HostRoot), patience: hostfs.NewPatience(hostfs.DefaultPatience)}
	return images.NewCollector(images.CollectorConfig{
		Policy: s.options.Images, Store: s.runtime, Records: s.images, Wanted: s.pool.WantedImages,
		Filesystem: disk.size, Warn: s.events.warnNode, Logger: log.WithName("images"), Registry: s.counted,
	})
}

// imageDisk is the file system on which the runtime keeps its images.
type imageDisk struct {
	runtime interface {
		ImageFilesystem(ctx context.Context) (string, error)
	}
	root     hostfs.Root
	patience *hostfs.Patience
}

// size returns its size and what is free of it, in bytes.
func (d *imageDisk) size(ctx context.Context) (capacity, available int64, err error) {
	path, err := d.runtime.ImageFilesystem(ctx)
	if err != nil {
		return 0, 0, err
	}
	s, err := hostfs.Ask(ctx, d.patience, path, func() (unix.Statfs_t, error) { return d.root.Statfs(path) }, func(unix.Statfs_t) {})
	if err != nil {
		return 0, 0, fmt.Errorf("measure the disk of images: %w", err)
	}
	return int64(s.Blocks) * s.Frsize, int64(s.Bavail) * s.Frsize, nil
}

var _ images.Store = (*cri.Client)(nil)
