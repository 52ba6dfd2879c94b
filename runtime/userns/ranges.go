// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package userns

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/runtime/hostfs"
	"github.com/managedworkload/managedworkload/runtime/statefile"
)

// Length of each range. The first range of the node is no pod's: it holds the
// node's own users. (kubelet config: DefaultKubeletUserNamespacesIDsPerPod)
const Length uint32 = 65536

const slots = math.MaxUint32/uint64(Length) + 1

// recordName is the kubelet's name of the file.
const recordName = "userns"

// Range maps the IDs 0 to Length-1 of a pod to those of the node that begin at First.
type Range struct {
	First, Length uint32
}

// Ranges are those of all pods of a node. It is safe for concurrent use.
type Ranges struct {
	root string

	mu sync.Mutex
	// users are the pods that have the ranges, by the first ID.
	users map[uint32]types.UID
	// unknown are the pods whose records are of no use: their ranges may be any.
	unknown map[types.UID]error
	// unwritten are those of users whose ranges could not be written down, and not be taken back.
	unwritten map[types.UID]bool
}

// New reads the records below root, which holds a directory for each pod. A record
// that can't be used is no error: until its pod is gone, no range is given away.
func New(root string) (*Ranges, error) {
	r := &Ranges{root: root, users: map[uint32]types.UID{}, unknown: map[types.UID]error{}, unwritten: map[types.UID]bool{}}
	entries, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read user namespaces of pods: %w", err)
	}
	for _, entry := range entries {
		if entry.IsDir() {
			r.restore(types.UID(entry.Name()))
		}
	}
	return r, nil
}

func (r *Ranges) restore(uid types.UID) {
	first, err := r.recorded(uid)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return
	case err == nil && r.users[first] != "":
		err = fmt.Errorf("range picked for pod %q already taken", uid)
	}
	if err != nil {
		r.unknown[uid] = err
		return
	}
	r.users[first] = uid
}

// Of returns the range of a pod; the first call picks one. The pod's directory must
// be there. (kubelet userns_manager.go:GetOrCreateUserNamespaceMappings)
func (r *Ranges) Of(uid types.UID) (Range, error) {
	if err := hostfs.PathPart(string(uid)); err != nil {
		return Range{}, fmt.Errorf("user namespace: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	first, found := r.taken(uid)
	if found && !r.unwritten[uid] {
		return Range{first, Length}, nil
	}
	if !found {
		var err error
		if first, err = r.pick(uid); err != nil {
			return Range{}, err
		}
	}
	// What may be on the disk is taken, even if writing it failed.
	r.users[first], r.unwritten[uid] = uid, true
	if err := r.record(uid, first); err != nil {
		if statefile.Remove(r.file(uid)) == nil {
			r.forget(uid)
		}
		return Range{}, fmt.Errorf("create user namespace: %w", err)
	}
	delete(r.unwritten, uid)
	return Range{first, Length}, nil
}

// taken is the first ID of the range of a pod that has one.
func (r *Ranges) taken(uid types.UID) (first uint32, found bool) {
	for first, user := range r.users {
		if user == uid {
			return first, true
		}
	}
	return 0, false
}

// pick is the first ID of a range for a pod that has none.
func (r *Ranges) pick(uid types.UID) (first uint32, err error) {
	if err := r.unknown[uid]; err != nil {
		return 0, fmt.Errorf("user namespace: %w", err)
	}
	for other, err := range r.unknown {
		return 0, fmt.Errorf("create user namespace: the range of pod %q is unknown: %w", other, err)
	}
	first, found := r.free()
	if !found {
		return 0, errors.New("create user namespace: could not find an empty slot to allocate a user namespace")
	}
	return first, nil
}

func (r *Ranges) free() (first uint32, found bool) {
	for slot := uint64(1); slot < slots; slot++ {
		first := uint32(slot) * Length
		if r.users[first] == "" {
			return first, true
		}
	}
	return 0, false
}

// Release gives the range of a pod back: nothing of the pod runs any more. A pod
// that has none is no error.
func (r *Ranges) Release(uid types.UID) error {
	if err := hostfs.PathPart(string(uid)); err != nil {
		return fmt.Errorf("release user namespace: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := statefile.Remove(r.file(uid)); err != nil {
		return fmt.Errorf("release user namespace: %w", err)
	}
	r.forget(uid)
	return nil
}

// forget notes that nothing is recorded of a pod.
func (r *Ranges) forget(uid types.UID) {
	delete(r.unknown, uid)
	delete(r.unwritten, uid)
	if first, found := r.taken(uid); found {
		delete(r.users, first)
	}
}

func (r *Ranges) file(uid types.UID) string {
	return filepath.Join(r.root, string(uid), recordName)
}
