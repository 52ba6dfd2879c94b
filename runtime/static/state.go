// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package static

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/status"
)

const (
	// annotationFile names the file of a workload in what is kept of it.
	annotationFile = "managedworkload.dev/static-file"
	// suffix is that of the files in which workloads are kept.
	suffix = ".yaml"
)

// Publish keeps the status of a workload beside its object: where there is no API server, people
// read it there. It does not wait for the disk.
func (s *Source) Publish(uid types.UID, st *v1alpha1.NodeWorkloadStatus) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.workloads[uid]
	if w == nil {
		return nil // it is gone
	}
	w.published = st.DeepCopy()
	w.show()
	s.tell(uid, w)
	if w.shutDown() {
		s.kick()
	}
	s.save(uid)
	return nil
}

// kick asks for a look soon.
func (s *Source) kick() {
	select {
	case s.kicked <- struct{}{}:
	default:
	}
}

// Live returns the object of a name, the one that is not ending before others; nil if there
// is none.
func (s *Source) Live(key types.NamespacedName) *template.Workload {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found *template.Workload
	for _, w := range s.workloads {
		if w.nw.Namespace == key.Namespace && w.nw.Name == key.Name && (found == nil || found.DeletionTimestamp != nil) {
			found = w.nw
		}
	}
	return found.DeepCopy()
}

// List returns all workloads, those that end too.
func (s *Source) List() []*template.Workload {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*template.Workload, 0, len(s.workloads))
	for _, w := range s.workloads {
		list = append(list, w.nw.DeepCopy())
	}
	slices.SortFunc(list, func(a, b *template.Workload) int { return cmp.Compare(a.UID, b.UID) })
	return list
}

// Known reports whether a workload has not been seen to end. As long as a file is not
// accepted any workload may be from it.
func (s *Source) Known(uid types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.certain || s.workloads[uid] != nil
}

// Release forgets a workload of which nothing is left. If its file is there, it runs again.
func (s *Source) Release(uid types.UID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.workloads[uid]; w != nil && w.shutDown() {
		again := w.nw.DeepCopy()
		again.DeletionTimestamp, again.Annotations, again.Status = nil, nil, v1alpha1.NodeWorkloadStatus{}
		s.returning[uid] = instance{again, w.path}
	}
	delete(s.workloads, uid)
	s.stale[uid] = true // one that runs again from the same content has the same UID
	s.save(uid)
	s.kick()
	return nil
}

// HandOver hands the workers what an earlier process ran.
func (s *Source) HandOver() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.workloads {
		s.cfg.Update(w.nw.DeepCopy())
	}
}

func (s *Source) pathOf(uid types.UID) string {
	return filepath.Join(s.cfg.StateDir, string(uid)+suffix)
}

// restore reads what an earlier process ran. A file that cannot be read is left out: the
// directory of static workloads says what runs.
func (s *Source) restore() error {
	if err := os.MkdirAll(s.cfg.StateDir, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(s.cfg.StateDir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		uid := types.UID(strings.TrimSuffix(entry.Name(), suffix))
		if !v1alpha1.IsStatic(uid) || s.pathOf(uid) != filepath.Join(s.cfg.StateDir, entry.Name()) {
			continue
		}
		w, err := s.readKept(uid)
		if err != nil {
			s.cfg.Log.Error(err, "Failed to read what was kept of a static workload; its file says what runs", "uid", uid)
			continue
		}
		s.workloads[uid] = w
	}
	return nil
}

var errOtherWorkload = errors.New("it is of another workload")

func (s *Source) readKept(uid types.UID) (*workload, error) {
	data, err := os.ReadFile(s.pathOf(uid))
	if err != nil {
		return nil, err
	}
	nw := &template.Workload{}
	if err := yaml.Unmarshal(data, nw); err != nil {
		return nil, err
	}
	if nw.UID != uid || nw.Name == "" || nw.Spec.NodeName != s.cfg.Node || nw.Template == nil {
		return nil, errOtherWorkload
	}
	meta.RemoveStatusCondition(&nw.Status.Conditions, v1alpha1.ConditionUpdateWaiting) // its file may be another by now
	nw.Status.Summary, _, _ = strings.Cut(nw.Status.Summary, status.Waiting)
	path := nw.Annotations[annotationFile]
	delete(nw.Annotations, annotationFile)
	return &workload{nw: nw, path: path}, nil
}
