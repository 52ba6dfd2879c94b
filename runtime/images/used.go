// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"context"
	"strings"

	"github.com/distribution/reference"
	"github.com/go-logr/logr"

	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// used are the IDs of the images that containers have or that workloads may need soon. It fails
// if that is not known of a container.
func (c *Collector) used(ctx context.Context, all []Image) (map[string]bool, error) {
	known := map[string]string{}
	for _, image := range all {
		known[image.ID] = image.ID
		for _, name := range image.Names {
			known[name] = image.ID
		}
	}
	names, err := c.config.Store.ImagesOfContainers(ctx)
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for _, name := range names {
		id, found := known[name]
		if !found {
			if id, err = c.idOf(ctx, name); err != nil {
				return nil, err
			}
			known[name] = id
		}
		used[id] = true
	}
	return used, c.addWanted(ctx, all, known, used)
}

// addWanted adds the images that workloads may need soon. The names are those that people write
// into templates: the runtime may fail to resolve one, such as the beginning of several IDs, and
// that is no reason to keep all other images. Of such a name the images stay that it names.
func (c *Collector) addWanted(ctx context.Context, all []Image, known map[string]string, used map[string]bool) error {
	for _, name := range c.config.Wanted() {
		if id, found := known[name]; found {
			used[id] = true
			continue
		}
		id, err := c.idOf(ctx, name)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			known[name] = id
			used[id] = true
			continue
		}
		logr.FromContextOrDiscard(ctx).V(1).Info("The runtime does not resolve the name of an image; comparing it with those that it lists",
			"image", name, "reason", err.Error())
		for _, id := range named(all, name) {
			used[id] = true
		}
	}
	return nil
}

// idOf asks for an image by a name that the list does not have: that of a template may be
// short.
func (c *Collector) idOf(ctx context.Context, name string) (string, error) {
	full, err := podspec.ImageName(name)
	if err != nil {
		return "", nil //nolint:nilerr // nothing can be started from it
	}
	return c.config.Store.ImageRef(ctx, full)
}

// named are the IDs of the images that a name may stand for: those with the name, whatever their
// registry is if it has none, and the one whose ID begins with it. Nothing can be started from the
// beginning of several IDs.
func named(all []Image, name string) (ids []string) {
	full, short := fullName(name)
	var byID []string
	for _, image := range all {
		if strings.HasPrefix(image.ID, name) || strings.HasPrefix(image.ID, "sha256:"+name) {
			byID = append(byID, image.ID)
		}
		for _, tag := range image.Names {
			if tag == full || short != "" && strings.HasSuffix(tag, short) {
				ids = append(ids, image.ID)
			}
		}
	}
	if len(byID) == 1 {
		ids = append(ids, byID[0])
	}
	return ids
}

// fullName is a name with registry and tag, or digest, as runtimes list it. short is what such a name
// ends with where the runtime chooses the registry; empty if the name has one.
func fullName(name string) (full, short string) {
	ref, err := reference.ParseDockerRef(name)
	if err != nil {
		return name, ""
	}
	full = ref.String()
	if first, _, _ := strings.Cut(name, "/"); !strings.HasPrefix(full, first+"/") {
		short = strings.TrimPrefix(strings.TrimPrefix(full, "docker.io"), "/library")
	}
	return full, short
}
