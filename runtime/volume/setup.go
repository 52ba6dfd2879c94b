// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// setUpAll takes away what the pod does not have any more and sets up its volumes,
// each by itself. It returns the first error in the template's order, and the
// condition of what could not be changed yet.
func (m *Manager) setUpAll(ctx context.Context, p *podVolumes, pod *corev1.Pod) (*corev1.PodCondition, error) {
	var errs []error
	m.forgetSources(p, pod)
	if err := m.tearDownLost(ctx, pod); err != nil {
		errs = append(errs, err)
	}
	on := &pass{p: p, pod: pod}
	var pending []string
	for i := range pod.Spec.Volumes {
		if ctx.Err() != nil {
			break
		}
		volume := &pod.Spec.Volumes[i]
		err := m.setUp(ctx, on, volume)
		if tooSmall, ok := errors.AsType[*sizeError](err); ok {
			pending = append(pending, fmt.Sprintf("volume %q: %v", volume.Name, tooSmall))
		} else if err != nil {
			errs = append(errs, setUpFailed(volume.Name, err))
		}
	}
	var first error
	if len(errs) > 0 {
		first = errs[0]
	}
	return sizePending(pending), first
}

// setUpFailed is an error in the words of the kubelet's event FailedMount.
func setUpFailed(volume string, err error) error {
	return fmt.Errorf("MountVolume.SetUp failed for volume %q : %w", volume, err)
}

func (m *Manager) setUp(ctx context.Context, on *pass, volume *corev1.Volume) error {
	k := m.kindOf(&volume.VolumeSource)
	if k == nil {
		return errNoKind
	}
	return k.setUp(m, ctx, on, volume, k)
}

// sizePending is the condition of emptyDirs in memory that keep a size above their
// limit; nil when there are none.
func sizePending(messages []string) *corev1.PodCondition {
	if len(messages) == 0 {
		return nil
	}
	return &corev1.PodCondition{
		Type: v1alpha1.ConditionVolumeSizePending, Status: corev1.ConditionTrue,
		Reason: v1alpha1.ReasonContentExceedsLimit, Message: strings.Join(messages, "; "),
	}
}
