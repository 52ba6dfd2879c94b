// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build record

package recorder

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"k8s.io/kubernetes/pkg/kubelet/eviction"
	evictionapi "k8s.io/kubernetes/pkg/kubelet/eviction/api"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/kubelet/server/stats"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/managedworkload/managedworkload/hack/recordings"
)

func parseThresholds(f recordings.EvictionFlags) ([]evictionapi.Threshold, error) {
	return eviction.ParseThresholdConfig(nil, f.Hard, f.Soft, f.SoftGracePeriod, f.MinimumReclaim)
}

func decideThresholds(_ *testing.T, c *recordings.Thresholds) {
	c.Failed, c.Thresholds, c.Met, c.Unresolved = false, []recordings.Threshold{}, []int{}, []int{}
	// Hard ones alone, and soft ones alone: the kubelet has each of both in the order of a map.
	hard, hardErr := eviction.ParseThresholdConfig(nil, c.Flags.Hard, nil, nil, c.Flags.MinimumReclaim)
	soft, softErr := eviction.ParseThresholdConfig(nil, nil, c.Flags.Soft, c.Flags.SoftGracePeriod, c.Flags.MinimumReclaim)
	_, err := eviction.ParseThresholdConfig(nil, c.Flags.Hard, c.Flags.Soft, c.Flags.SoftGracePeriod, c.Flags.MinimumReclaim)
	if c.Failed = err != nil; c.Failed != (hardErr != nil || softErr != nil) {
		panic("the flags are not independent of each other")
	}
	if c.Failed {
		return
	}
	bySignal := func(a, b evictionapi.Threshold) int { return strings.Compare(string(a.Signal), string(b.Signal)) }
	slices.SortFunc(hard, bySignal)
	slices.SortFunc(soft, bySignal)
	all := append(hard, soft...)
	for _, t := range all {
		parsed := recordings.Threshold{Signal: string(t.Signal), Value: amount(t.Value), GraceSeconds: t.GracePeriod.Seconds()}
		if t.MinReclaim != nil {
			least := amount(*t.MinReclaim)
			parsed.MinReclaim = &least
		}
		c.Thresholds = append(c.Thresholds, parsed)
	}
	summary := summaryOf(c.Observed, nil, nil)
	for strict, into := range map[bool]*[]int{false: &c.Met, true: &c.Unresolved} {
		met := eviction.RecordThresholdsMet(all, summary, strict)
		for i := range all {
			if slices.Contains(met, all[i]) {
				*into = append(*into, i)
			}
		}
	}
}

func amount(v evictionapi.ThresholdValue) recordings.Amount {
	if v.Quantity != nil {
		return recordings.Amount{Quantity: v.Quantity.String()}
	}
	return recordings.Amount{Percentage: v.Percentage}
}

func decideRank(_ *testing.T, c *recordings.Rank) {
	pods := slices.Clone(c.Pods)
	eviction.RecordRank(evictionapi.Signal(c.Signal), c.ImageFs, pods, podStats(c.Pods, c.Uses))
	c.Order = []string{}
	for _, pod := range pods {
		c.Order = append(c.Order, pod.Name)
	}
}

func decideEviction(t *testing.T, c *recordings.Eviction) {
	thresholds, err := parseThresholds(c.Flags)
	must(t, err)
	epoch := time.Unix(0, 0)
	clock := clocktesting.NewFakeClock(epoch)
	node := &evictedNode{imageFs: c.ImageFs}
	manager, admits := eviction.NewManager(node, eviction.Config{
		PressureTransitionPeriod: time.Duration(c.TransitionSeconds * float64(time.Second)), MaxPodGracePeriodSeconds: c.MaxGraceSeconds, Thresholds: thresholds,
	}, node.kill, node, node, &evictionEvents{node: node}, &corev1.ObjectReference{Kind: "Node", Name: "node"}, clock, false)
	pods := slices.Clone(c.Pods)
	for i := range c.Steps {
		s := &c.Steps[i]
		s.EvictionAnswer = recordings.EvictionAnswer{Conditions: []string{}, Actions: []string{}, Refused: map[string]string{}}
		node.step, node.all, node.summary = s, c.Pods, summaryOf(s.Observed, c.Pods, s.Uses)
		clock.SetTime(epoch.Add(time.Duration(s.Now * float64(time.Second))))
		conditions, err := eviction.RecordSynchronize(t.Context(), manager, node, func() []*corev1.Pod { return slices.Clone(pods) })
		must(t, err)
		for _, condition := range conditions {
			s.Conditions = append(s.Conditions, string(condition))
		}
		slices.Sort(s.Conditions)
		for _, pod := range c.Pods {
			if answer := admits.Admit(&lifecycle.PodAdmitAttributes{Pod: pod}); !answer.Admit {
				s.Refused[pod.Name] = answer.Reason
				if len(s.Conditions) == 1 {
					s.Refused[pod.Name] += ": " + answer.Message
				}
			}
		}
		pods = slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return pod.Name == s.Killed })
	}
}

// evictedNode is what the kubelet's manager asks of a node.
type evictedNode struct {
	imageFs bool
	step    *recordings.EvictionStep
	all     []*corev1.Pod
	summary *statsapi.Summary
}

func (n *evictedNode) Get(context.Context, bool) (*statsapi.Summary, error) { return n.summary, nil }

func (n *evictedNode) GetCPUAndMemoryStats(context.Context) (*statsapi.Summary, error) {
	return n.summary, nil
}

var _ stats.SummaryProvider = &evictedNode{}

func (n *evictedNode) HasDedicatedImageFs(context.Context) (bool, error)     { return n.imageFs, nil }
func (n *evictedNode) HasDedicatedContainerFs(context.Context) (bool, error) { return false, nil }

func (n *evictedNode) DeleteAllUnusedContainers(context.Context) error {
	n.step.Actions = append(n.step.Actions, "remove containers")
	n.summary = summaryOf(n.step.Reclaimed, n.all, n.step.Uses)
	return nil
}

func (n *evictedNode) DeleteUnusedImages(context.Context) error {
	n.step.Actions = append(n.step.Actions, "remove images")
	return nil
}

func (n *evictedNode) kill(pod *corev1.Pod, _ bool, override *int64, fill func(*corev1.PodStatus)) error {
	var status corev1.PodStatus
	fill(&status)
	n.step.Killed, n.step.Override, n.step.Message = pod.Name, *override, status.Message
	if status.Phase != corev1.PodFailed || status.Reason != eviction.Reason || len(status.Conditions) != 1 {
		return fmt.Errorf("an unexpected status: %+v", status)
	}
	c := status.Conditions[0]
	n.step.Condition = &corev1.PodCondition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message}
	return nil
}

// evictionEvents notes events.
type evictionEvents struct {
	record.EventRecorder
	node *evictedNode
}

func (e *evictionEvents) Eventf(_ runtime.Object, _, reason, message string, args ...any) {
	e.node.step.Actions = append(e.node.step.Actions, reason+": "+fmt.Sprintf(message, args...))
}

func (e *evictionEvents) AnnotatedEventf(_ runtime.Object, annotations map[string]string, _, _, _ string, _ ...any) {
	e.node.step.Annotations = annotations
}

// summaryOf is what the kubelet's own statistics would be.
func summaryOf(observed map[string]recordings.Available, pods []*corev1.Pod, uses map[string]*recordings.PodUse) *statsapi.Summary {
	summary := &statsapi.Summary{Pods: podStats(pods, uses)}
	of := func(signal string) (available, capacity *uint64) {
		if seen, ok := observed[signal]; ok {
			a, c := uint64(seen.Available), uint64(seen.Capacity)
			return &a, &c
		}
		return nil, nil
	}
	if available, capacity := of("memory.available"); available != nil {
		// The kubelet adds up what is available and what is used.
		used := *capacity - *available
		summary.Node.Memory = &statsapi.MemoryStats{AvailableBytes: available, WorkingSetBytes: &used}
	}
	summary.Node.Fs, summary.Node.Runtime = &statsapi.FsStats{}, &statsapi.RuntimeStats{ImageFs: &statsapi.FsStats{}}
	for name, fs := range map[string]*statsapi.FsStats{"nodefs": summary.Node.Fs, "imagefs": summary.Node.Runtime.ImageFs} {
		fs.AvailableBytes, fs.CapacityBytes = of(name + ".available")
		fs.InodesFree, fs.Inodes = of(name + ".inodesFree")
	}
	if seen, ok := observed["pid.available"]; ok {
		running := seen.Capacity - seen.Available
		summary.Node.Rlimit = &statsapi.RlimitStats{MaxPID: &seen.Capacity, NumOfRunningProcesses: &running}
	}
	return summary
}

func podStats(pods []*corev1.Pod, uses map[string]*recordings.PodUse) []statsapi.PodStats {
	fs := func(use *recordings.DiskUse) *statsapi.FsStats {
		if use == nil {
			return nil
		}
		return &statsapi.FsStats{UsedBytes: use.Bytes, InodesUsed: use.Inodes}
	}
	var all []statsapi.PodStats
	for _, pod := range pods {
		use := uses[pod.Name]
		if use == nil {
			continue
		}
		s := statsapi.PodStats{
			PodRef:       statsapi.PodReference{Name: pod.Name, UID: string(pod.UID)},
			ProcessStats: &statsapi.ProcessStats{ProcessCount: use.Processes},
		}
		if use.Memory != nil {
			s.Memory = &statsapi.MemoryStats{WorkingSetBytes: use.Memory}
		}
		for _, c := range use.Containers {
			s.Containers = append(s.Containers, statsapi.ContainerStats{
				Name: c.Name, Memory: &statsapi.MemoryStats{WorkingSetBytes: c.Memory}, Rootfs: fs(c.RootFs), Logs: fs(c.Logs),
			})
		}
		for _, v := range use.Volumes {
			s.VolumeStats = append(s.VolumeStats, statsapi.VolumeStats{Name: v.Name, FsStats: *fs(&v.DiskUse)})
		}
		all = append(all, s)
	}
	return all
}
