// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/distribution/reference"
)

// preloaded are the images that were on the node before this shim has pulled them, by what the
// runtime calls them, and the repositories that they had names of then. Every pod may use an image
// by a name of such a repository, or by its ID, whoever pulls the same content later. It ends when
// the image or the name is gone.
type preloaded map[string][]string

// note learns which images there are. Only those without a record are taken in that no pull may have
// brought. It reports whether something changed.
func (m *memory) note(all []Image) (changed bool) {
	next := make(preloaded, len(all))
	takesIn := !m.unread && len(m.brokenIntents) == 0 // a pull of which the name cannot be read may bring any image, and late
	for _, image := range all {
		known, isKnown := m.preloaded[image.ID]
		repositories := repositoriesOf(image.Names)
		switch {
		case takesIn && !m.isPulled(image.ID) && !m.mayBring(repositories):
			next[image.ID] = repositories
		case isKnown:
			next[image.ID] = slices.DeleteFunc(slices.Clone(known), func(r string) bool { return !slices.Contains(repositories, r) })
		}
	}
	changed = m.brokenPreloaded || !maps.EqualFunc(next, m.preloaded, slices.Equal)
	m.preloaded, m.brokenPreloaded = next, false
	return changed
}

func (m *memory) isPulled(ref string) bool {
	return m.records[ref] != nil || m.brokenRecords[fileOf(ref)]
}

// mayBring reports whether a pull under way may have brought an image with names in these repositories. What it
// brings may have other names, too, and the name that was asked for last; of one without a registry the runtime
// chooses the repository.
func (m *memory) mayBring(repositories []string) bool {
	for name := range m.intents {
		full, short := repositoryOf(name)
		if len(repositories) == 0 || full == "" || short != "" || slices.Contains(repositories, full) {
			return true
		}
	}
	return false
}

// has reports whether an image is preloaded by the name in a template.
func (p preloaded) has(image, ref string) bool {
	repositories, known := p[ref]
	if !known {
		return false
	}
	if isID(image, ref) {
		return true
	}
	full, short := repositoryOf(image)
	return slices.ContainsFunc(repositories, func(r string) bool {
		return r == full || short != "" && strings.HasSuffix(r, short)
	})
}

// repositoriesOf returns the repositories of names as a runtime lists them, in order.
func repositoriesOf(names []string) []string {
	repositories := make([]string, 0, len(names))
	for _, name := range names {
		if full, _ := repositoryOf(name); full != "" {
			repositories = append(repositories, full)
		}
	}
	slices.Sort(repositories)
	return slices.Compact(repositories)
}

// repositoryOf returns the repository of a name with its registry, "" if it is none. short is what
// it ends with where the runtime chooses the registry; "" if the name has one.
func repositoryOf(name string) (full, short string) {
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return "", ""
	}
	if bare := withoutTag(name); bare != named.Name() {
		short = "/" + bare
	}
	return named.Name(), short
}

// minIDLength is how much of an ID names an image at the least.
const minIDLength = 4

// isID reports whether a name is the ID of an image, or its beginning.
func isID(name, ref string) bool {
	name, ref = strings.TrimPrefix(name, "sha256:"), strings.TrimPrefix(ref, "sha256:")
	return len(name) >= min(minIDLength, len(ref)) && strings.HasPrefix(ref, name)
}

// look learns which images the runtime has, and which of them are preloaded.
func (m *Manager) look(ctx context.Context) (all []Image, err error) {
	if m.runtime == nil {
		return nil, nil
	}
	select { // an older list must not count after a newer one
	case m.looking <- struct{}{}:
		defer func() { <-m.looking }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if all, err = m.runtime.ListImages(ctx); err != nil {
		return nil, fmt.Errorf("list the images of the node: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.note(all) {
		m.changed(preloadedFile)
	}
	return all, nil
}
