// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package recordings

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// Plan are the flags as the plan takes them.
func (f EvictionFlags) Plan() plan.EvictionFlags {
	texts := func(of map[string]string) plan.ThresholdTexts {
		into := plan.ThresholdTexts{}
		for signal, text := range of {
			into[plan.Signal(signal)] = text
		}
		return into
	}
	return plan.EvictionFlags{
		Hard: texts(f.Hard), Soft: texts(f.Soft), SoftGracePeriod: texts(f.SoftGracePeriod), MinimumReclaim: texts(f.MinimumReclaim),
	}
}

// Observations are signals as the plan takes them, in the kubelet's formats.
func Observations(observed map[string]Available) plan.Observations {
	all := plan.Observations{}
	for signal, seen := range observed {
		format := resource.BinarySI
		if strings.HasSuffix(signal, ".inodesFree") || signal == "pid.available" {
			format = resource.DecimalSI
		}
		all[plan.Signal(signal)] = []plan.Observation{{
			Available: resource.NewQuantity(seen.Available, format), Capacity: resource.NewQuantity(seen.Capacity, format),
		}}
	}
	return all
}

// Candidates are pods with what they use.
func Candidates(pods []*corev1.Pod, uses map[string]*PodUse) []plan.Candidate {
	var all []plan.Candidate
	for _, pod := range pods {
		all = append(all, plan.Candidate{Pod: pod, Use: uses[pod.Name].plan()})
	}
	return all
}

func (u *PodUse) plan() *plan.PodUse {
	if u == nil {
		return nil
	}
	use := &plan.PodUse{Memory: number(u.Memory), Processes: number(u.Processes)}
	for _, c := range u.Containers {
		use.Containers = append(use.Containers, plan.ContainerUse{Name: c.Name, Memory: number(c.Memory), RootFs: c.RootFs.plan(), Logs: c.Logs.plan()})
	}
	for _, v := range u.Volumes {
		use.Volumes = append(use.Volumes, plan.VolumeUse{Name: v.Name, DiskUse: v.DiskUse.plan()})
	}
	return use
}

func (d *DiskUse) plan() plan.DiskUse {
	if d == nil {
		return plan.DiskUse{}
	}
	return plan.DiskUse{Bytes: number(d.Bytes), Inodes: number(d.Inodes)}
}

func number(n *uint64) *int64 {
	if n == nil {
		return nil
	}
	return new(int64(*n))
}
