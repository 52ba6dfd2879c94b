// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/controllers/fleet"
)

// goneKept is how long after its time for a retry a NodeWorkload is remembered that is gone, and
// maxGone how many of a node are: those whose time comes last.
const (
	goneKept = lastRetry
	maxGone  = 32
)

// of is what is remembered once these are the NodeWorkloads. What left before it was granted was
// not granted: made again it would keep Pods from the node for another forbearance each time.
func (r retries) of(shares []*fleet.Share, now time.Time) retries {
	there := map[types.NamespacedName]bool{}
	for _, s := range shares {
		there[s.Key()] = !s.Terminal()
	}
	r.denied, r.lack = maps.Clone(r.denied), maps.Clone(r.lack)
	if _, lacks := r.lack[r.trial]; r.has(r.trial) && !there[r.trial] && !lacks { // no answer yet
		r.deny(r.trial, r.denied[r.trial].asked, r.denied[r.trial].message, now)
	}
	for key, d := range r.lack {
		if !there[key] {
			r.deny(key, d.asked, d.message, now)
			delete(r.lack, key)
		}
	}
	if !there[r.trial] {
		r.trial = none
	}
	for key, d := range r.denied {
		d.gone = !there[key]
		r.denied[key] = d
	}
	maps.DeleteFunc(r.denied, func(_ types.NamespacedName, d denial) bool { return d.gone && now.Sub(d.again) >= goneKept })
	r.bound()
	return r
}

// bound forgets what is gone and too many.
func (r *retries) bound() {
	for {
		var first types.NamespacedName
		count := 0
		for key, d := range r.denied {
			if !d.gone {
				continue
			}
			if count++; first == none || d.again.Before(r.denied[first].again) {
				first = key
			}
		}
		if count <= maxGone {
			return
		}
		delete(r.denied, first)
	}
}
