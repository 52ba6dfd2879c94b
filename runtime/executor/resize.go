// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
	"github.com/managedworkload/managedworkload/runtime/runtimeerror"
)

// Resizer is implemented by a Runtime that can change the resources of running
// containers; without it a resize fails.
type Resizer interface {
	UpdateContainerResources(ctx context.Context, pod *corev1.Pod, c *corev1.Container, id string, from, to plan.Resources) error
	// MemoryUse is in bytes.
	MemoryUse(ctx context.Context, id string) (uint64, error)
}

// PodCgroup changes the limits of a pod's cgroup. before is the pod with the
// resources that its containers were given last.
type PodCgroup interface {
	RaiseLimits(ctx context.Context, before, pod *corev1.Pod, name corev1.ResourceName) error
	LowerLimits(ctx context.Context, before, pod *corev1.Pod, name corev1.ResourceName) error
}

var errNoResizer = errors.New("the runtime cannot change the resources of running containers")

// resize changes the resources of running containers and of the pod. A failure
// ends nothing else; the next sync tries again.
// (kubelet kuberuntime_manager.go:doPodResizeAction)
func (s *syncRun) resize(ctx context.Context) {
	a := &s.in.Actions
	if !a.Resizes() || a.KillPod && s.e.differences.SpareKilled || ctx.Err() != nil {
		return
	}
	result := plan.Result{Action: plan.ActionResizePodInPlace, Target: podspec.Format(s.in.Pod)}
	if err := s.resizeInPlace(ctx); err != nil && ctx.Err() == nil {
		result.Err, result.Message = ErrResizePodInPlace, runtimeerror.Text(err)
	}
	s.result.add(result)
}

func (s *syncRun) resizeInPlace(ctx context.Context) error {
	a := &s.in.Actions
	resizer, ok := s.e.runtime.(Resizer)
	if !ok && len(a.MemoryToUpdate)+len(a.CPUToUpdate) > 0 {
		return errNoResizer
	}
	if err := checkMemory(ctx, resizer, a.MemoryToUpdate); err != nil {
		return err
	}
	before := s.podWith(func(*plan.ContainerStatus) bool { return true })
	for _, r := range []struct {
		name    corev1.ResourceName
		updates []plan.ResourceUpdate
	}{{corev1.ResourceMemory, a.MemoryToUpdate}, {corev1.ResourceCPU, a.CPUToUpdate}} {
		if len(r.updates) == 0 && !a.UpdatePodResources {
			continue
		}
		if err := s.resizeResource(ctx, resizer, before, r.name, r.updates); err != nil {
			return err
		}
	}
	return nil
}

// resizeResource changes one resource: the pod's limits first where they grow,
// last where they shrink, so that they are never below those of a container.
func (s *syncRun) resizeResource(ctx context.Context, resizer Resizer, before *corev1.Pod, name corev1.ResourceName, updates []plan.ResourceUpdate) error {
	cgroup := s.e.cgroup
	pod := s.podWith(func(c *plan.ContainerStatus) bool { return s.runsOn(c) && !s.updated(c) })
	if cgroup != nil {
		if err := cgroup.RaiseLimits(ctx, before, pod, name); err != nil {
			return err
		}
	}
	for _, u := range updates {
		if err := s.updateContainer(ctx, resizer, name, u); err != nil {
			return err
		}
	}
	if cgroup != nil {
		return cgroup.LowerLimits(ctx, before, pod, name)
	}
	return nil
}

// updateContainer changes one resource of a container and leaves the other as it
// was given last.
func (s *syncRun) updateContainer(ctx context.Context, resizer Resizer, name corev1.ResourceName, u plan.ResourceUpdate) error {
	c := podspec.Container(s.in.Pod, u.Name)
	if c == nil {
		return fmt.Errorf("the pod has no container %q", u.Name)
	}
	current := u.Current
	if given, ok := s.in.Actuated[u.ID]; ok {
		current = given
	}
	to := current.With(name, u.Desired)
	if err := resizer.UpdateContainerResources(ctx, s.in.Pod, c, u.ID, current, to); err != nil {
		return err
	}
	if s.in.Actuated != nil {
		s.in.Actuated[u.ID] = to
	}
	s.e.noteGiven(s.in.Pod.UID, s.around, u.ID, to)
	return nil
}

// podWith is the pod with the resources that some of its containers were given last.
func (s *syncRun) podWith(given func(*plan.ContainerStatus) bool) *corev1.Pod {
	pod := s.in.Pod.DeepCopy()
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			c := &containers[i]
			status := s.around.Current(c.Name)
			if status == nil || !given(status) {
				continue
			}
			if last, ok := s.given(status); ok && last != plan.ResourcesOf(&c.Resources) {
				c.Resources = last.Requirements()
			}
		}
	}
	return pod
}

// limited is the pod that its cgroup is for while the sync starts containers: what runs
// on has, until it is updated or replaced, the resources that it was given last.
func (s *syncRun) limited() *corev1.Pod { return s.podWith(s.runsOn) }

// runsOn is whether a container runs and this sync does not kill it.
func (s *syncRun) runsOn(c *plan.ContainerStatus) bool {
	a := &s.in.Actions
	return c.State == plan.ContainerRunning && !a.KillPod &&
		!slices.ContainsFunc(a.ContainersToKill, func(k plan.Kill) bool { return k.ID == c.ID }) &&
		!slices.ContainsFunc(a.ContainersToReset, func(r plan.Reset) bool { return r.ID == c.ID })
}

// updated is whether this sync changes the resources of a running container.
func (s *syncRun) updated(c *plan.ContainerStatus) bool {
	its := func(u plan.ResourceUpdate) bool { return u.ID == c.ID }
	return slices.ContainsFunc(s.in.Actions.MemoryToUpdate, its) || slices.ContainsFunc(s.in.Actions.CPUToUpdate, its)
}

// checkMemory refuses a memory limit below what a container uses: the kernel would
// kill it. (kubelet kuberuntime_manager.go:validateMemoryResizeAction)
func checkMemory(ctx context.Context, resizer Resizer, updates []plan.ResourceUpdate) error {
	var errs []error
	for _, u := range updates {
		limit := u.Desired.MemoryLimit
		if limit == 0 || u.Current.MemoryLimit != 0 && limit >= u.Current.MemoryLimit {
			continue
		}
		use, err := resizer.MemoryUse(ctx, u.ID)
		switch {
		case runtimeerror.IsNotFound(err): // what is gone is not among the statistics, its update says so
		case err != nil:
			errs = append(errs, fmt.Errorf("missing container %q memory usage", u.Name))
		case use >= uint64(limit):
			errs = append(errs, fmt.Errorf("attempting to set container %q memory limit (%d) below current usage (%d)", u.Name, limit, use))
		}
	}
	if len(errs) > 0 {
		return fmt.Errorf("cannot decrease memory limits: %w", utilerrors.NewAggregate(errs))
	}
	return nil
}
