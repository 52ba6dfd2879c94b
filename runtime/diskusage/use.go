// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package diskusage

import (
	"context"
	"errors"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// Use is what a pod has in emptyDirs and logs, by volume and by container.
type Use struct{ Volumes, Logs map[string]plan.DiskUse }

// Use measures a pod that need not have a limit. With an error, or where a bound was met, it is a
// part of what is used.
func (k *Keeper) Use(ctx context.Context, pod Pod) (Use, error) {
	m := &measurement{Keeper: k}
	use := Use{Volumes: map[string]plan.DiskUse{}, Logs: map[string]plan.DiskUse{}}
	into := func(all map[string]plan.DiskUse) func(string, result, bool) {
		return func(name string, found result, _ bool) {
			all[name] = plan.DiskUse{Bytes: &found.bytes, Inodes: &found.inodes}
		}
	}
	places := k.config.Places(pod)
	err := errors.Join(m.each(ctx, places.EmptyDirs, into(use.Volumes)), m.each(ctx, places.Logs, into(use.Logs)))
	return use, err
}
