// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/objects"
)

// fileError is why files of a volume could not be brought up to date.
type fileError struct {
	volume string
	err    error
}

func (e fileError) Error() string { return fmt.Sprintf("volume %q: %v", e.volume, e.err) }

func (e fileError) Unwrap() error { return e.err }

func joined(failed []fileError) error {
	errs := make([]error, 0, len(failed))
	for _, e := range failed {
		errs = append(errs, e)
	}
	return errors.Join(errs...)
}

func sameErrors(a, b []fileError) bool {
	return slices.EqualFunc(a, b, func(x, y fileError) bool { return x.Error() == y.Error() })
}

// lasting returns the errors that people should know about. After a restart of the shim nothing
// has been received for a moment, and that is none, until the tries are as far apart as they get.
func (p *podVolumes) lasting(failed []fileError) []fileError {
	return slices.DeleteFunc(slices.Clone(failed), func(e fileError) bool {
		return errors.Is(e.err, objects.ErrNotReceived) && p.refreshWait < refreshInterval
	})
}

// say lets people know which files are not brought up to date: by an event for each volume of
// which it is news, and by the pod's conditions.
func (m *Manager) say(pod *corev1.Pod, before, failed []fileError) {
	for _, e := range failed {
		if !slices.ContainsFunc(before, func(b fileError) bool { return b.Error() == e.Error() }) {
			m.config.Warn(pod, setUpFailed(e.volume, e.err).Error())
		}
	}
	m.config.Changed(pod.UID)
}

// notUpdatedCondition is the condition of files that are not brought up to date, nil if all are.
func notUpdatedCondition(failed []fileError) *corev1.PodCondition {
	if len(failed) == 0 {
		return nil
	}
	texts := make([]string, 0, len(failed))
	for _, e := range failed {
		texts = append(texts, e.Error())
	}
	return &corev1.PodCondition{
		Type: v1alpha1.ConditionVolumesOutdated, Status: corev1.ConditionTrue,
		Reason: v1alpha1.ReasonFilesNotUpdated, Message: strings.Join(texts, "; "),
	}
}
