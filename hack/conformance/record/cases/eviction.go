// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/hack/recordings"
)

// signals are those of node pressure that a flag may name.
var signals = []string{
	"memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree", "pid.available",
}

const capacityOfSignal = 1 << 30

// available is how much of a signal is left.
func (d dice) available() recordings.Available {
	return recordings.Available{
		Available: pick[int64](d, 0, 1, 50<<20, 99<<20, 100<<20, 101<<20, 107374182, 107374183, 150<<20, 200<<20, 500<<20, capacityOfSignal),
		Capacity:  pick[int64](d, capacityOfSignal, capacityOfSignal, capacityOfSignal, 1000, 0),
	}
}

func (d dice) observedSignals(from []string, percent int) map[string]recordings.Available {
	observed := map[string]recordings.Available{}
	for _, s := range some(d, percent, from) {
		observed[s] = d.available()
	}
	return observed
}

// thresholdText is a threshold, sometimes a wrong one.
func (d dice) thresholdText() string {
	if d.chance(4) {
		return pick(d, "", "x", "-1", "-5%", "101%", "0", "%", "1Gx", "0%", "100%", "0.0%", "10%%", "1e3", "x%")
	}
	return pick(d, "100Mi", "10%", "5%", "15%", "0.5Gi", "200Mi", "1k", "12.5%", "104857600", "1Gi", "99.9%")
}

// evictionFlags are flags for signals; wrong says that some may be refused.
func (d dice) evictionFlags(from []string, wrong bool) recordings.EvictionFlags {
	text := func() string {
		if wrong {
			return d.thresholdText()
		}
		return pick(d, "100Mi", "10%", "200Mi", "104857600", "0.15Gi", "20%")
	}
	f := recordings.EvictionFlags{
		Hard: map[string]string{}, Soft: map[string]string{}, SoftGracePeriod: map[string]string{}, MinimumReclaim: map[string]string{},
	}
	for _, s := range from {
		if d.chance(60) {
			f.Hard[s] = text()
		}
		if d.chance(40) {
			f.Soft[s] = text()
			if !wrong || d.chance(95) {
				f.SoftGracePeriod[s] = pick(d, "10s", "30s", "1m30s", "0s", "25s")
			}
		}
		if d.chance(40) {
			f.MinimumReclaim[s] = pick(d, "0", "50Mi", "5%", "1", "10%")
		}
	}
	if wrong && d.chance(5) {
		f.SoftGracePeriod[pick(d, from...)] = pick(d, "-1s", "1", "x")
	}
	if wrong && d.chance(5) {
		f.MinimumReclaim[pick(d, from...)] = pick(d, "-1", "0%", "-1%", "x")
	}
	if wrong && d.chance(3) {
		pick(d, f.Hard, f.Soft, f.MinimumReclaim)["memory"] = "1Gi"
	}
	return f
}

// NewThresholds makes a case of eviction-thresholds.
func NewThresholds(seed uint64, n int) *recordings.Thresholds {
	d := newDice(seed, uint64(n))
	return &recordings.Thresholds{
		ID: fmt.Sprintf("eviction-thresholds-%d-%d", seed, n), Flags: d.evictionFlags(some(d, 60, signals), true),
		Observed: d.observedSignals(signals, 80),
	}
}

// NewRank makes a case of eviction-rank. There are no more pods than the kubelet's sort leaves in
// their order where they compare equal.
func NewRank(seed uint64, n int) *recordings.Rank {
	d := newDice(seed, uint64(n))
	c := &recordings.Rank{ID: fmt.Sprintf("eviction-rank-%d-%d", seed, n), Signal: pick(d, signals...), ImageFs: d.chance(50)}
	c.Pods = d.evictable()
	c.Uses = d.usesOf(c.Pods)
	return c
}

// NewEviction makes a case of eviction-trace. Of a signal there is either a hard or a soft
// threshold, and beside memory one signal only: among others the kubelet takes any.
func NewEviction(seed uint64, n int) *recordings.Eviction {
	d := newDice(seed, uint64(n))
	from := []string{"memory.available", pick(d, signals[1:]...)}
	c := &recordings.Eviction{
		ID: fmt.Sprintf("eviction-trace-%d-%d", seed, n), Flags: d.evictionFlags(from, false),
		MaxGraceSeconds: pick[int64](d, 0, 0, 5, 30, 600), TransitionSeconds: pick(d, 5.0, 30, 300), ImageFs: d.chance(50), Pods: d.evictable(),
	}
	maps.DeleteFunc(c.Flags.Soft, func(s, _ string) bool { _, hard := c.Flags.Hard[s]; return hard })
	now := 0.0
	for range 3 + d.IntN(10) {
		step := recordings.EvictionStep{Now: now, Observed: d.observedSignals(from, 95), Uses: d.usesOf(c.Pods)}
		step.Reclaimed = maps.Clone(step.Observed)
		for s := range step.Reclaimed {
			if d.chance(50) {
				step.Reclaimed[s] = d.available()
			}
		}
		c.Steps = append(c.Steps, step)
		now += pick(d, 10.0, 10, 10, 20, 35, 300)
	}
	return c
}

// evictable are pods of a node.
func (d dice) evictable() []*corev1.Pod {
	var pods []*corev1.Pod
	for i := range 1 + d.IntN(8) {
		name := fmt.Sprintf("pod-%d", i)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns1", UID: types.UID("uid-" + name)}}
		pod.Spec.Priority = maybe[int32](d, 0, 0, 1, 1000, -1)
		if d.chance(6) {
			pod.Spec.Priority = maybe[int32](d, 2_000_000_000, 1_999_999_999, 2_000_001_000)
		}
		pod.Spec.TerminationGracePeriodSeconds = maybe[int64](d, 1, 10, 30, 30)
		for j := range 1 + d.IntN(3) {
			pod.Spec.Containers = append(pod.Spec.Containers, d.requesting(fmt.Sprintf("c%d", j)))
		}
		for j := range pick(d, 0, 0, 1, 2) {
			c := d.requesting(fmt.Sprintf("i%d", j))
			c.RestartPolicy = maybe(d, corev1.ContainerRestartPolicyAlways)
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
		}
		for _, s := range []corev1.VolumeSource{
			{EmptyDir: &corev1.EmptyDirVolumeSource{}}, {EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}},
			{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}}, {ConfigMap: &corev1.ConfigMapVolumeSource{}}, {Secret: &corev1.SecretVolumeSource{}},
		} {
			if d.chance(30) {
				pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: fmt.Sprintf("v%d", len(pod.Spec.Volumes)), VolumeSource: s})
			}
		}
		d.overheadAndTolerations(pod)
		pods = append(pods, pod)
	}
	return pods
}

func (d dice) overheadAndTolerations(pod *corev1.Pod) {
	if d.chance(15) {
		pod.Spec.Overhead = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("10Mi"), corev1.ResourceEphemeralStorage: resource.MustParse("1Mi")}
	}
	if d.chance(10) {
		pod.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("60Mi")}}
	}
	if d.chance(20) {
		pod.Spec.Tolerations = []corev1.Toleration{pick(d,
			corev1.Toleration{Key: "node.kubernetes.io/memory-pressure", Operator: "Exists"}, corev1.Toleration{Operator: "Exists"},
			corev1.Toleration{Key: "node.kubernetes.io/memory-pressure"}, corev1.Toleration{Key: "node.kubernetes.io/memory-pressure", Value: "x"},
			corev1.Toleration{Key: "node.kubernetes.io/memory-pressure", Operator: "Exists", Effect: "NoExecute"},
			corev1.Toleration{Key: "node.kubernetes.io/disk-pressure", Operator: "Exists"},
			corev1.Toleration{Key: "node.kubernetes.io/memory-pressure", Operator: "Lt", Value: "1"})}
	}
}

// requesting is a container that requests something or nothing.
func (d dice) requesting(name string) corev1.Container {
	c := corev1.Container{Name: name}
	list := corev1.ResourceList{}
	if d.chance(50) {
		list[corev1.ResourceMemory] = resource.MustParse(pick(d, "10Mi", "50Mi", "64M", "1Gi"))
	}
	if d.chance(40) {
		list[corev1.ResourceEphemeralStorage] = resource.MustParse(pick(d, "1Mi", "50Mi", "1Gi", "100"))
	}
	if len(list) > 0 {
		c.Resources.Requests = list
	}
	return c
}

// usesOf is what pods use; of some nothing is known.
func (d dice) usesOf(pods []*corev1.Pod) map[string]*recordings.PodUse {
	size := func() *uint64 {
		return maybe[uint64](d, 0, 1, 1<<20, 50<<20, 50<<20, 64_000_000, 64_000_001, 100<<20, 2<<30)
	}
	disk := func() recordings.DiskUse {
		return recordings.DiskUse{Bytes: size(), Inodes: maybe[uint64](d, 0, 1, 10, 10, 5000)}
	}
	maybeDisk := func() *recordings.DiskUse {
		if d.chance(10) {
			return nil
		}
		use := disk()
		return &use
	}
	uses := map[string]*recordings.PodUse{}
	for _, pod := range pods {
		if d.chance(8) {
			continue
		}
		use := &recordings.PodUse{Memory: size(), Processes: maybe[uint64](d, 0, 1, 5, 5, 900)}
		for _, c := range containersOf(pod) {
			if d.chance(90) {
				use.Containers = append(use.Containers, recordings.ContainerUse{Name: c.Name, Memory: size(), RootFs: maybeDisk(), Logs: maybeDisk()})
			}
		}
		for _, v := range pod.Spec.Volumes {
			if d.chance(85) {
				use.Volumes = append(use.Volumes, recordings.VolumeUse{Name: v.Name, DiskUse: disk()})
			}
		}
		uses[pod.Name] = use
	}
	return uses
}
