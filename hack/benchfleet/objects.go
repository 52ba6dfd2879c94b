// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/localstack"
	"github.com/managedworkload/managedworkload/hack/usage"
)

// controllers are those of kube-controller-manager that the first workload's token needs: the
// Nodes have no kubelet that others would look for.
const controllers = "serviceaccount-controller,root-ca-certificate-publisher-controller"

// contents are what the first workload refers to: Secrets and ConfigMaps in turn.
func (o *options) contents() []client.Object {
	list := make([]client.Object, o.objects)
	for i := range list {
		meta := metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("object-%d", i)}
		list[i] = &corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"file": content(o.objectBytes)}}
		if i%2 == 1 {
			list[i] = &corev1.ConfigMap{ObjectMeta: meta, BinaryData: map[string][]byte{"file": content(o.objectBytes)}}
		}
	}
	return list
}

func content(size int) []byte { return bytes.Repeat([]byte{byte(rand.IntN(256))}, size) }

// makeObjects makes what the first workload refers to, and lets the manager read it and make tokens.
func (f *fleet) makeObjects(ctx context.Context) error {
	if f.options.objects == 0 {
		return nil
	}
	var err error
	for _, role := range []string{localstack.ObjectsRole, localstack.TokensRole} {
		err = errors.Join(err, f.api.Create(ctx, localstack.Grant(namespace, role)))
	}
	for _, object := range f.options.contents() {
		err = errors.Join(err, f.api.Create(ctx, object))
		f.objects = append(f.objects, version{object.GetName(), object.GetResourceVersion()})
	}
	return err
}

// mountObjects has a workload refer to them.
func (f *fleet) mountObjects(mw *v1alpha1.ManagedWorkload) {
	pod := &mw.Spec.Template.Spec
	for i, object := range f.objects {
		volume := corev1.Volume{Name: object.name}
		volume.Secret = &corev1.SecretVolumeSource{SecretName: object.name}
		if i%2 == 1 {
			volume.VolumeSource = corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: object.name}}}
		}
		pod.Volumes = append(pod.Volumes, volume)
		pod.Containers[0].VolumeMounts = append(pod.Containers[0].VolumeMounts, corev1.VolumeMount{Name: object.name, MountPath: "/" + object.name})
	}
}

// deliver opens the watches of all nodes at once.
func (f *fleet) deliver(ctx context.Context, p *Phase) error {
	return f.receive(ctx, p, func() error {
		for i := range f.options.nodes {
			f.receivers.start(f.running, nodeName(i), f.uids[i])
		}
		return nil
	})
}

// changeObject changes one Secret.
func (f *fleet) changeObject(ctx context.Context, p *Phase) error {
	return f.receive(ctx, p, func() error {
		secret := &corev1.Secret{}
		if err := f.api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: f.objects[0].name}, secret); err != nil {
			return err
		}
		before := secret.Data["file"][0]
		secret.Data["file"] = bytes.Repeat([]byte{before + 1}, f.options.objectBytes)
		err := f.api.Update(ctx, secret)
		f.objects[0].version = secret.ResourceVersion
		return err
	})
}

// receive measures from when something begins until all nodes have all objects.
func (f *fleet) receive(ctx context.Context, p *Phase, begin func() error) error {
	before, err := usage.Anonymous(f.stack.Manager.PID())
	if err != nil {
		return err
	}
	begun, received := time.Now(), f.receivers.received.Load()
	most := f.watchMemory(ctx)
	if err := begin(); err != nil {
		return err
	}
	for _, n := range []int{(f.options.nodes + 1) / 2, f.options.nodes} {
		if err := f.receivers.await(ctx, n, f.objects); err != nil {
			return err
		}
		p.add(fmt.Sprintf("until %d nodes have all objects", n), time.Since(begun).Seconds(), "s")
	}
	p.add("received", float64(f.receivers.received.Load()-received)/1e6, "MB")
	p.add("the manager's anonymous memory before", float64(before>>20), "MB")
	p.add("most", float64(most()>>20), "MB")
	if err := pause(ctx, f.options.window); err != nil {
		return err
	}
	after, err := usage.Anonymous(f.stack.Manager.PID())
	p.add(fmt.Sprintf("%s later", f.options.window), float64(after>>20), "MB")
	p.add("watches that ended before their time", float64(f.receivers.failed.Load()), "")
	return err
}

// watchMemory looks at the manager's anonymous memory until most asks for the most it saw.
func (f *fleet) watchMemory(ctx context.Context) (most func() int64) {
	ctx, cancel := context.WithCancel(ctx)
	result := make(chan int64, 1)
	go func() {
		seen := int64(0)
		for pause(ctx, 50*time.Millisecond) == nil {
			if now, err := usage.Anonymous(f.stack.Manager.PID()); err == nil {
				seen = max(seen, now)
			}
		}
		result <- seen
	}()
	return func() int64 {
		cancel()
		return <-result
	}
}
