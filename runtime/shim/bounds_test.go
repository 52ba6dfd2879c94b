// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// fakeBounds answers one look after another, the last one again and again.
type fakeBounds struct {
	answers []error
	over    bool
	looks   int
}

func (f *fakeBounds) KeepBounds(context.Context) (bool, error) {
	err := f.answers[min(f.looks, len(f.answers)-1)]
	f.looks++
	return !f.over, err
}

// The bounds are looked at again and again, and a failure is said once.
func TestBoundsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said []string
		f := &fakeBounds{answers: []error{nil, errors.New("5 in use"), errors.New("7 in use"), nil, errors.New("7 in use")}}
		k := &boundKeeper{cgroups: f, ready: make(chan struct{}), warn: func(reason, message string) { said = append(said, reason+": "+message) }}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- k.run(ctx) }()
		time.Sleep(time.Hour)
		if f.looks > 0 {
			t.Error("bounds are set before the cgroup driver is known")
		}
		close(k.ready)
		time.Sleep(time.Minute)
		cancel()
		if err := <-done; err != nil || f.looks < 6 {
			t.Errorf("%d looks, %v", f.looks, err)
		}
		if want := []string{"NodeBoundNotInForce: 5 in use", "NodeBoundNotInForce: 7 in use"}; !slices.Equal(said, want) {
			t.Errorf("said %q, want %q", said, want)
		}
	})
}

// Where there is no bound, nothing is looked at.
func TestNoBoundsAreKept(t *testing.T) {
	f := &fakeBounds{answers: []error{nil}, over: true}
	k := &boundKeeper{cgroups: f, ready: make(chan struct{})}
	close(k.ready)
	if err := k.run(t.Context()); err != nil || f.looks != 1 {
		t.Errorf("%d looks, %v", f.looks, err)
	}
}

func TestExceeds(t *testing.T) {
	o := Options{MaxCPU: "500m", MaxMemory: "4Gi"}
	bounds, err := o.parseBounds()
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
		Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("5Gi")},
	}}}}}
	want := `spec.template.spec.containers[0].resources.limits[cpu]: Invalid value: "1": above this node's --max-cpu=500m; ` +
		`spec.template.spec.containers[0].resources.limits[memory]: Invalid value: "5Gi": above this node's --max-memory=4Gi`
	if diff := cmp.Diff(want, exceeds(bounds)(pod)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := exceeds(bounds)(&corev1.Pod{}); got != "" {
		t.Errorf("%q of nothing", got)
	}
}
