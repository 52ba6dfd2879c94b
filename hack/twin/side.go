// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
	"github.com/managedworkload/managedworkload/hack/localstack"
)

// namespace holds everything that is compared.
const namespace = "twin"

// side is one of the two: the kubelet with Pods, the shim with ManagedWorkloads.
type side interface {
	name() string
	nodeName() string
	create(ctx context.Context, name string, meta metav1.ObjectMeta, spec corev1.PodSpec) error
	change(ctx context.Context, name string, edit func(*corev1.PodSpec)) error
	// resize changes CPU and memory of containers.
	resize(ctx context.Context, name string, edit func(*corev1.PodSpec)) error
	// remove deletes with a grace period, or with the template's if nil.
	remove(ctx context.Context, name string, grace *int64) error
	runtime() *localstack.CRI
	seen() *sightings
}

// sighting is what the API said at a time.
type sighting struct {
	at     time.Time
	uid    types.UID
	status corev1.PodStatus
	// deleting tells that the node's agent was asked to end it.
	deleting, gone bool
}

// sightings are all that a watch has seen, by the name of the scenario.
type sightings struct {
	mu     sync.Mutex
	byName map[string][]sighting
	change chan struct{} // closed at the next change
	err    error
}

func newSightings() *sightings {
	return &sightings{byName: map[string][]sighting{}, change: make(chan struct{})}
}

func (s *sightings) add(name string, one sighting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byName[name] = append(s.byName[name], one)
	s.wake()
}

func (s *sightings) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
	s.wake()
}

func (s *sightings) wake() {
	close(s.change)
	s.change = make(chan struct{})
}

// all returns what was seen so far and a channel that is closed at the next change.
func (s *sightings) all(name string) ([]sighting, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.byName[name]
	return slices.Clip(list), s.change, s.err
}

// follow watches until the context is done.
func follow(ctx context.Context, kube client.WithWatch, list client.ObjectList, on func(watch.Event)) error {
	w, err := harness.Watch(ctx, kube, list, client.InNamespace(namespace))
	if err != nil {
		return err
	}
	defer w.Stop()
	err = harness.AwaitEvent(ctx, w, func(e watch.Event) bool {
		on(e)
		return false
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

type kubeletSide struct {
	kube client.WithWatch
	node string
	cri  *localstack.CRI
	saw  *sightings
}

func (k *kubeletSide) name() string             { return "kubelet" }
func (k *kubeletSide) nodeName() string         { return k.node }
func (k *kubeletSide) runtime() *localstack.CRI { return k.cri }
func (k *kubeletSide) seen() *sightings         { return k.saw }

func (k *kubeletSide) watch(ctx context.Context) error {
	return follow(ctx, k.kube, &corev1.PodList{}, func(e watch.Event) {
		if pod, ok := e.Object.(*corev1.Pod); ok {
			k.saw.add(pod.Name, sighting{time.Now(), pod.UID, pod.Status, pod.DeletionTimestamp != nil, e.Type == watch.Deleted})
		}
	})
}

func (k *kubeletSide) create(ctx context.Context, name string, meta metav1.ObjectMeta, spec corev1.PodSpec) error {
	spec.NodeName, meta.Namespace, meta.Name = k.node, namespace, name
	return k.kube.Create(ctx, &corev1.Pod{ObjectMeta: meta, Spec: spec})
}

func (k *kubeletSide) change(ctx context.Context, name string, edit func(*corev1.PodSpec)) error {
	pod, patch, err := k.edited(ctx, name, edit)
	if err != nil {
		return err
	}
	return k.kube.Patch(ctx, pod, patch)
}

func (k *kubeletSide) edited(ctx context.Context, name string, edit func(*corev1.PodSpec)) (*corev1.Pod, client.Patch, error) {
	pod := &corev1.Pod{}
	if err := k.kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, pod); err != nil {
		return nil, nil, err
	}
	patch := client.StrategicMergeFrom(pod.DeepCopy())
	edit(&pod.Spec)
	return pod, patch, nil
}

// resize goes through the Pod's subresource.
func (k *kubeletSide) resize(ctx context.Context, name string, edit func(*corev1.PodSpec)) error {
	pod, patch, err := k.edited(ctx, name, edit)
	if err != nil {
		return err
	}
	return k.kube.SubResource("resize").Patch(ctx, pod, patch)
}

func (k *kubeletSide) remove(ctx context.Context, name string, grace *int64) error {
	return k.kube.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}},
		&client.DeleteOptions{GracePeriodSeconds: grace})
}

type shimSide struct {
	kube client.WithWatch
	node string
	cri  *localstack.CRI
	saw  *sightings
}

func (s *shimSide) name() string             { return "shim" }
func (s *shimSide) nodeName() string         { return s.node }
func (s *shimSide) runtime() *localstack.CRI { return s.cri }
func (s *shimSide) seen() *sightings         { return s.saw }

func (s *shimSide) watch(ctx context.Context) error {
	return follow(ctx, s.kube, &v1alpha1.NodeWorkloadList{}, func(e watch.Event) {
		if nw, ok := e.Object.(*v1alpha1.NodeWorkload); ok {
			s.saw.add(nw.Labels[v1alpha1.LabelWorkload], sighting{time.Now(), nw.UID, podStatus(&nw.Status), nw.DeletionTimestamp != nil, e.Type == watch.Deleted})
		}
	})
}

// podStatus is a NodeWorkload's status in the shape of a Pod's.
func podStatus(s *v1alpha1.NodeWorkloadStatus) corev1.PodStatus {
	status := corev1.PodStatus{
		Phase: s.Phase, Reason: s.Reason, Message: s.Message, QOSClass: s.QOSClass, StartTime: s.StartTime,
		InitContainerStatuses: s.InitContainerStatuses, ContainerStatuses: s.ContainerStatuses,
	}
	for _, ip := range s.PodIPs {
		status.PodIPs = append(status.PodIPs, corev1.PodIP{IP: ip})
	}
	for _, c := range s.Conditions {
		status.Conditions = append(status.Conditions, corev1.PodCondition{
			Type: corev1.PodConditionType(c.Type), Status: corev1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message,
		})
	}
	return status
}

func (s *shimSide) create(ctx context.Context, name string, meta metav1.ObjectMeta, spec corev1.PodSpec) error {
	spec.NodeName = s.node
	return s.kube.Create(ctx, &v1alpha1.ManagedWorkload{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.ManagedWorkloadSpec{Template: corev1.PodTemplateSpec{ObjectMeta: meta, Spec: spec}},
	})
}

func (s *shimSide) edit(ctx context.Context, name string, edit func(*v1alpha1.ManagedWorkload)) error {
	mw := &v1alpha1.ManagedWorkload{}
	if err := s.kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, mw); err != nil {
		return err
	}
	old := mw.DeepCopy()
	edit(mw)
	return s.kube.Patch(ctx, mw, client.MergeFrom(old))
}

func (s *shimSide) change(ctx context.Context, name string, edit func(*corev1.PodSpec)) error {
	return s.edit(ctx, name, func(mw *v1alpha1.ManagedWorkload) { edit(&mw.Spec.Template.Spec) })
}

func (s *shimSide) resize(ctx context.Context, name string, edit func(*corev1.PodSpec)) error {
	return s.change(ctx, name, edit)
}

func (s *shimSide) remove(ctx context.Context, name string, grace *int64) error {
	if grace != nil {
		err := s.edit(ctx, name, func(mw *v1alpha1.ManagedWorkload) {
			mw.Annotations = map[string]string{v1alpha1.AnnotationDeletionGracePeriodSeconds: fmt.Sprint(ptr.Deref(grace, 0))}
		})
		if err != nil {
			return err
		}
	}
	return s.kube.Delete(ctx, &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
}
