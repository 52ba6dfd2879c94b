// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// record is what is known of an image that this shim has pulled.
type record struct {
	// Ref is what the runtime calls it.
	Ref     string    `json:"ref"`
	Updated time.Time `json:"updated"`
	// Names are those by which it was pulled, without tag and digest, and who may use it
	// by that name. An image without any is for those who pull it again.
	Names map[string]grants `json:"names,omitempty"`
}

// grants say who may use an image by a name.
type grants struct {
	// Everyone: it was pulled without credentials.
	Everyone bool `json:"everyone,omitempty"`
	// Secrets are those with which it was pulled, in order.
	Secrets []grant `json:"secrets,omitempty"`
}

// grant is one Secret that has pulled an image, and the hash of what was presented.
type grant struct {
	Source
	Hash string `json:"hash"`
}

// intent says that an image is being pulled, or was when this process or its predecessor
// was cut off.
type intent struct {
	// Image is the name of the template.
	Image string `json:"image"`
	// Before is what the runtime had by that name when the pull began; empty if nothing,
	// or if that is not known.
	Before string `json:"before,omitempty"`
	// Brought are the images that its pulls have brought and whose records are not on the disk, by
	// what the runtime calls them. It is replaced, not changed.
	Brought []string `json:"brought,omitempty"`

	pulls int // under way
	// cutOff is when it was seen last that one of them was cut off; zero without one.
	cutOff time.Time
}

// isOver reports whether nothing has to stay on the disk about the pulls of an image: a record says who may
// use what they have brought, and they bring nothing more.
func (i *intent) isOver() bool { return i.pulls == 0 && i.cutOff.IsZero() && len(i.Brought) == 0 }

// withoutTag is an image's name without tag and digest, as the template has it.
func withoutTag(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if colon := strings.LastIndexByte(image, ':'); colon > strings.LastIndexByte(image, '/') {
		image = image[:colon]
	}
	return image
}

// with returns the record with one more credential by which an image may be used by a name;
// nil means that it was pulled without any. It returns nil if that was known.
// (kubelet pullmanager/image_pull_manager.go:pulledRecordMergeNewCreds)
func (r *record) with(name string, used *Credential, now time.Time) *record {
	known := r.Names[name]
	if known.Everyone {
		return nil
	}
	next := grants{Everyone: used == nil}
	if used != nil {
		var changed bool
		if next.Secrets, changed = merge(known.Secrets, grant{Source: used.Source, Hash: used.Hash}); !changed {
			return nil
		}
	}
	changed := &record{Ref: r.Ref, Updated: now, Names: maps.Clone(r.Names)}
	if changed.Names == nil {
		changed.Names = map[string]grants{}
	}
	changed.Names[name] = next
	return changed
}

// merge adds a grant, or gives that of the same Secret another hash.
func merge(known []grant, added grant) (merged []grant, changed bool) {
	i, found := slices.BinarySearchFunc(known, added, func(a, b grant) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	if found && known[i] == added {
		return known, false
	}
	merged = slices.Clone(known)
	if found {
		merged[i] = added
		return merged, true
	}
	return slices.Insert(merged, i, added), true
}
