// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package static

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// look brings the workloads to what the files say, and returns when to look again. What
// cannot be read, or is not accepted, leaves what runs as it is.
// (kubelet config/file_linux.go, file.go:listConfig)
func (s *Source) look(ctx context.Context, now time.Time) (again time.Duration) {
	paths, err := s.list()
	if err != nil {
		s.refuse(s.cfg.Dir, err)
		s.setCertain(false)
		return interval
	}
	delete(s.refused, s.cfg.Dir)
	files, again := s.readAll(paths, now)
	s.tryChanged(ctx, files)
	s.files = files
	wanted := s.wanted(paths)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.noteMissing(wanted, now) {
		again = settled
	}
	s.sayWaits(now)
	s.end(wanted, now)
	s.begin(wanted, now)
	s.noteTaken()
	if s.handOverMissing() {
		again = min(again, interval/4)
	}
	s.certain = !slices.ContainsFunc(paths, func(path string) bool { return files[path].err != nil })
	return again
}

// readAll reads the files, and returns when to look again.
func (s *Source) readAll(paths []string, now time.Time) (files map[string]file, again time.Duration) {
	files, again = make(map[string]file, len(paths)), interval
	for _, path := range paths {
		f := s.read(path, now)
		if errors.Is(f.err, errUnsettled) {
			again, f.since = settled, now
			if before := s.files[path]; errors.Is(before.err, errUnsettled) {
				f.since = before.since
			}
		}
		switch {
		case errors.Is(f.err, errUnsettled) && now.Sub(f.since) >= restless:
			s.refuse(path, errRestless)
		case f.err != nil && !errors.Is(f.err, errUnsettled):
			s.refuse(path, f.err)
		}
		files[path] = f
	}
	return files, again
}

// patience returns how long a workload whose file is gone waits for another file that may become its own:
// one that is being written may be a copy of it. A file that is written for longer than that holds none.
func (s *Source) patience(now time.Time) time.Duration {
	for _, f := range s.files {
		if errors.Is(f.err, errUnsettled) && now.Sub(f.since) < copying {
			return copying
		}
	}
	return settled
}

// isBackup reports whether a name is that of a hidden file or a backup: editors write such files
// first, or keep in them what was there.
func isBackup(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "#") || strings.HasSuffix(name, "~") || strings.HasSuffix(name, ".bak")
}

// list returns the paths of the files.
func (s *Source) list() ([]string, error) {
	entries, err := os.ReadDir(s.cfg.Dir)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, entry := range entries {
		if entry.IsDir() || isBackup(entry.Name()) {
			continue
		}
		paths = append(paths, filepath.Join(s.cfg.Dir, entry.Name()))
	}
	return paths, nil
}

// instance is an object with the file that it is from.
type instance struct {
	nw   *template.Workload
	path string
}

// wanted are the instances that the files stand for. Of two of the same name that counts
// which was there before, or else the one whose file's name comes first. A file that is not
// accepted keeps what ran from it.
func (s *Source) wanted(paths []string) map[types.UID]instance {
	for {
		wanted, twice := s.choose(paths)
		if twice == nil {
			s.accept(wanted)
			return wanted
		}
		s.files[twice.path] = file{err: twice.err} // what ran from it is among the next
		s.refuse(twice.path, twice.err)
	}
}

// accept drops what is remembered about files that are accepted.
func (s *Source) accept(wanted map[types.UID]instance) {
	for _, i := range wanted {
		if s.files[i.path].err == nil {
			delete(s.refused, i.path)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.returning, func(_ types.UID, i instance) bool { return s.files[i.path].err == nil })
}

// refusal is a file that is not accepted for what another says.
type refusal struct {
	path string
	err  error
}

// choose chooses among the files that are accepted and what runs from the others. It returns the first file with a name
// that is taken instead, if there is one.
func (s *Source) choose(paths []string) (map[types.UID]instance, *refusal) {
	var found []instance
	for _, path := range paths {
		if f := s.files[path]; f.err == nil {
			found = append(found, instance{f.nw, path})
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.workloads {
		if s.files[w.path].err != nil && w.nw.DeletionTimestamp == nil {
			found = append(found, instance{w.nw, w.path})
		}
	}
	for _, i := range s.returning {
		if s.files[i.path].err != nil {
			found = append(found, i)
		}
	}
	slices.SortStableFunc(found, func(a, b instance) int {
		return cmp.Or(cmp.Compare(s.rank(a), s.rank(b)), cmp.Compare(a.path, b.path))
	})
	wanted := map[types.UID]instance{}
	names := map[types.NamespacedName]instance{}
	for _, i := range found {
		key := types.NamespacedName{Namespace: i.nw.Namespace, Name: i.nw.Name}
		first, taken := names[key]
		if taken && s.files[i.path].err == nil && first.path != i.path {
			return nil, &refusal{i.path, fmt.Errorf("metadata.name: %s has a workload %s too", first.path, key)}
		}
		if taken {
			continue
		}
		names[key], wanted[i.nw.UID] = i, i
	}
	return wanted, nil
}

// rank is 0 for what is there, 1 for what is new. s.mu is held.
func (s *Source) rank(i instance) int {
	if w, ok := s.workloads[i.nw.UID]; ok && w.nw.DeletionTimestamp == nil {
		return 0
	}
	return 1
}

// noteMissing notes what has no file, and says whether that is to be looked at again soon: it may
// be on its way to another name. s.mu is held.
func (s *Source) noteMissing(wanted map[types.UID]instance, now time.Time) (soon bool) {
	for uid, w := range s.workloads {
		i, ok := wanted[uid]
		switch {
		case ok:
			w.path, w.missing = i.path, time.Time{}
		case w.nw.DeletionTimestamp == nil && w.missing.IsZero():
			w.missing, soon = now, true
		case w.nw.DeletionTimestamp == nil:
			soon = soon || now.Sub(w.missing) < settled
		}
	}
	return soon
}

// handOverMissing hands over again what has no worker: one of the same UID may have been ending
// when it was handed over first. s.mu is held.
func (s *Source) handOverMissing() (lacks bool) {
	for uid, w := range s.workloads {
		if !s.cfg.Has(uid) {
			lacks = true
			s.cfg.Update(w.nw.DeepCopy())
		}
	}
	return lacks
}

// end ends what has had no file for a while, and removes what a shutdown of the node ended: it runs again
// when the node admits it. s.mu is held.
func (s *Source) end(wanted map[types.UID]instance, now time.Time) {
	patience := s.patience(now)
	for uid, w := range s.workloads {
		_, there := wanted[uid]
		if there && !w.shutDown() || w.nw.DeletionTimestamp != nil {
			continue
		}
		if !there && s.cfg.Dir != "" && now.Sub(w.missing) < patience {
			continue
		}
		w.nw = w.nw.DeepCopy()
		w.nw.DeletionTimestamp = &metav1.Time{Time: now}
		w.nw.Annotations = map[string]string{v1alpha1.AnnotationRequestedBy: s.why(w)}
		s.cfg.Log.Info("Ending a static workload", "workload", w.nw.Namespace+"/"+w.nw.Name, "uid", uid, "file", w.path)
		s.save(uid)
		s.cfg.Update(w.nw.DeepCopy())
	}
}

// why says for what a workload from a file is ended.
func (s *Source) why(w *workload) string {
	if s.cfg.Dir == "" {
		return "a shim without --static-dir"
	}
	if w.removed != "" {
		return "removal of the file " + w.removed
	}
	if _, there := s.files[w.path]; !there {
		return "removal of the file " + w.path
	}
	if w.shutDown() {
		return "shim (it runs again after a shutdown of the node)"
	}
	return "change of the file " + w.path
}

// shutDown reports whether a shutdown of the node has ended all containers.
// (kubelet kubelet_pods.go:HandlePodCleanups restarts such Pods)
func (w *workload) shutDown() bool {
	st := &w.nw.Status
	return st.Phase == corev1.PodFailed && st.Reason == v1alpha1.ReasonTerminated &&
		!slices.ContainsFunc(slices.Concat(st.ContainerStatuses, st.InitContainerStatuses), func(c corev1.ContainerStatus) bool { return c.State.Running != nil })
}

// begin runs what is new. s.mu is held. One that is ending as it was written is not taken
// back: it runs again after its end, and not before the state directory has nothing more of it:
// were the process to crash, the next one would take that end for the end of what runs.
func (s *Source) begin(wanted map[types.UID]instance, now time.Time) {
	for uid, i := range wanted {
		if _, there := s.workloads[uid]; there || s.stale[uid] {
			continue
		}
		w := &workload{nw: i.nw.DeepCopy(), path: i.path}
		w.nw.CreationTimestamp = metav1.NewTime(now)
		s.workloads[uid], s.took = w, true
		delete(s.returning, uid)
		s.cfg.Log.Info("Running a static workload", "workload", w.nw.Namespace+"/"+w.nw.Name, "uid", uid, "file", w.path)
		s.save(uid)
		s.cfg.Update(w.nw.DeepCopy())
	}
}

// endAll ends all workloads: there is no directory any more.
func (s *Source) endAll(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(nil, now)
	s.certain = true
}

func (s *Source) setCertain(certain bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.certain = certain
}

// refuse says once why a file is not accepted.
func (s *Source) refuse(path string, err error) {
	message := notAccepted(path, err)
	if s.refused[path] == message {
		return
	}
	s.refused[path] = message
	s.cfg.Log.Info("A static workload is not accepted; what ran is kept", "file", path, "reason", err.Error())
	s.cfg.Refused(message)
}

// notAccepted says of a file that what is in it does not run, and why.
func notAccepted(path string, err error) string {
	return fmt.Sprintf("%s is not accepted, and what runs from it is kept: %v", path, err)
}
