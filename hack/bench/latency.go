// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/localstack"
)

// sample is one round: how long each way took.
type sample struct{ start, end time.Duration }

// latency takes turns, so that both ways see the same machine.
func (b *bench) latency(ctx context.Context, rounds int) error {
	var shim, bare []sample
	for i := range rounds + 1 {
		s, err := b.applyAndDelete(ctx, fmt.Sprintf("bench-%d", i))
		if err != nil {
			return fmt.Errorf("round %d, shim: %w", i, err)
		}
		r, err := b.bareCRI(ctx, fmt.Sprintf("bare-%d", i))
		if err != nil {
			return fmt.Errorf("round %d, bare CRI: %w", i, err)
		}
		// The first round warms up.
		if i > 0 {
			shim, bare = append(shim, s), append(bare, r)
		}
	}
	report("apply to Running", shim, bare, func(s sample) time.Duration { return s.start })
	report("delete to gone", shim, bare, func(s sample) time.Duration { return s.end })
	return nil
}

func report(what string, shim, bare []sample, of func(sample) time.Duration) {
	median := func(samples []sample) time.Duration {
		times := make([]time.Duration, 0, len(samples))
		for _, s := range samples {
			times = append(times, of(s))
		}
		slices.Sort(times)
		return times[len(times)/2]
	}
	a, b := median(shim), median(bare)
	fmt.Printf("%-18s ManagedWorkload %4d ms, bare CRI %4d ms, ratio %.2f (medians of %d)\n",
		what+":", a.Milliseconds(), b.Milliseconds(), float64(a)/float64(b), len(shim))
}

func workload(name string, hostNetwork bool) *v1alpha1.ManagedWorkload {
	return &v1alpha1.ManagedWorkload{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault},
		Spec: v1alpha1.ManagedWorkloadSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			HostNetwork: hostNetwork,
			Containers:  []corev1.Container{{Name: "c", Image: localstack.ImageV1}},
		}}},
	}
}

func (b *bench) applyAndDelete(ctx context.Context, name string) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	node, err := b.kube.Watch(ctx, &v1alpha1.NodeWorkloadList{}, client.InNamespace(metav1.NamespaceDefault),
		client.MatchingFields{"metadata.name": name + "-" + b.stack.NodeName()})
	if err != nil {
		return sample{}, err
	}
	defer node.Stop()
	object, err := b.kube.Watch(ctx, &v1alpha1.ManagedWorkloadList{}, client.InNamespace(metav1.NamespaceDefault),
		client.MatchingFields{"metadata.name": name})
	if err != nil {
		return sample{}, err
	}
	defer object.Stop()

	mw := workload(name, false)
	begin := time.Now()
	if err := b.kube.Create(ctx, mw); err != nil {
		return sample{}, err
	}
	err = await(node, func(e watch.Event) bool {
		nw, ok := e.Object.(*v1alpha1.NodeWorkload)
		return ok && nw.Status.Phase == corev1.PodRunning
	})
	if err != nil {
		return sample{}, fmt.Errorf("wait for Running: %w", err)
	}
	s := sample{start: time.Since(begin)}

	begin = time.Now()
	if err := b.kube.Delete(ctx, mw); err != nil {
		return sample{}, err
	}
	if err := await(object, func(e watch.Event) bool { return e.Type == watch.Deleted }); err != nil {
		return sample{}, fmt.Errorf("wait until it is gone: %w", err)
	}
	s.end = time.Since(begin)
	return s, nil
}

func await(w watch.Interface, done func(watch.Event) bool) error {
	for event := range w.ResultChan() {
		if done(event) {
			return nil
		}
	}
	return errors.New("the watch ended before")
}

// bareCRI makes the calls that starting and ending one container take.
func (b *bench) bareCRI(ctx context.Context, name string) (s sample, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cri, err := b.stack.CRI()
	if err != nil {
		return sample{}, err
	}
	defer func() { err = errors.Join(err, cri.Close()) }()
	sandbox := &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "bench", Uid: name},
		Hostname:     name,
		LogDirectory: b.stack.Scratch(),
		// The shim must not take it for one of its own, and it must not see it
		// long: a pod of somebody else's on the socket stops the shim's starts.
		Labels: map[string]string{"bench": name},
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent:    b.stack.CgroupBelow(name),
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{NamespaceOptions: &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER}},
		},
	}
	begin := time.Now()
	box, err := cri.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: sandbox})
	if err != nil {
		return sample{}, err
	}
	container, err := cri.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId: box.GetPodSandboxId(), SandboxConfig: sandbox,
		Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "c"},
			Image:    &runtimeapi.ImageSpec{Image: localstack.ImageV1},
			LogPath:  name + ".log",
			Linux:    &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{NamespaceOptions: &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER}}},
		},
	})
	if err != nil {
		return sample{}, err
	}
	if _, err := cri.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: container.GetContainerId()}); err != nil {
		return sample{}, err
	}
	s.start = time.Since(begin)

	begin = time.Now()
	if _, err := cri.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: container.GetContainerId(), Timeout: 30}); err != nil {
		return sample{}, err
	}
	if _, err := cri.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: box.GetPodSandboxId()}); err != nil {
		return sample{}, err
	}
	if _, err := cri.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: container.GetContainerId()}); err != nil {
		return sample{}, err
	}
	if _, err := cri.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: box.GetPodSandboxId()}); err != nil {
		return sample{}, err
	}
	s.end = time.Since(begin)
	return s, nil
}
