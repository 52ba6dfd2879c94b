// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package subresources

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/subresources/v1alpha1"
)

// usageLife is how long a node's usage is kept: three posts of its shim.
const usageLife = 3 * time.Minute

// usages is what the nodes that post to this replica use: some 200 bytes a workload.
type usages struct {
	mu    sync.Mutex
	nodes map[string]*nodeUsed
	// swept is when what is too old was removed last.
	swept time.Time
}

// used is CPU in billionths of one, memory and disk in bytes.
type used struct{ cpu, memory, disk int64 }

type containerUsed struct {
	name unique.Handle[string]
	used
}

type workloadUsed struct {
	namespace  unique.Handle[string]
	workload   unique.Handle[string]
	name       string
	containers []containerUsed
	used
}

type nodeUsed struct {
	// received is by this replica's clock, at by the node's.
	received, at  time.Time
	window        time.Duration
	used, managed used
	workloads     []workloadUsed
}

func newUsages() *usages { return &usages{nodes: map[string]*nodeUsed{}} }

// set takes what a node posted, in place of what it posted before.
func (u *usages) set(node string, n *nodeUsed) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.nodes[node] = n
	if n.received.Sub(u.swept) >= usageLife {
		maps.DeleteFunc(u.nodes, func(_ string, n2 *nodeUsed) bool { return n2.expired(n.received) })
		u.swept = n.received
	}
}

func (n *nodeUsed) expired(now time.Time) bool { return now.Sub(n.received) >= usageLife }

// each calls do for each node whose usage is known, in the order of their names. What it gets does not change.
func (u *usages) each(do func(node string, n *nodeUsed)) {
	now := time.Now()
	u.mu.Lock()
	nodes := maps.Clone(u.nodes)
	u.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		if n := nodes[name]; !n.expired(now) {
			do(name, n)
		}
	}
}

// nodeUsages are those of all nodes, or of one.
func (u *usages) nodeUsages(only string) []v1alpha1.NodeUsage {
	list := []v1alpha1.NodeUsage{}
	u.each(func(name string, n *nodeUsed) {
		if only != "" && only != name {
			return
		}
		usage, managed := n.used.list(), n.managed.list()
		delete(usage, corev1.ResourceEphemeralStorage) // of the whole node it is not known
		list = append(list, v1alpha1.NodeUsage{
			TypeMeta:   typeOf("NodeUsage"),
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Timestamp:  metav1.NewTime(n.at), Window: metav1.Duration{Duration: n.window},
			Usage: usage, Managed: managed,
		})
	})
	return list
}

// workloadUsages are those of a namespace, or of all, and there of one name or all.
func (u *usages) workloadUsages(namespace, name string) []v1alpha1.WorkloadUsage {
	list := []v1alpha1.WorkloadUsage{}
	u.each(func(node string, n *nodeUsed) {
		for i := range n.workloads {
			w := &n.workloads[i]
			if namespace != "" && w.namespace.Value() != namespace || name != "" && w.name != name {
				continue
			}
			list = append(list, w.usage(node, n))
		}
	})
	slices.SortStableFunc(list, func(a, b v1alpha1.WorkloadUsage) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return list
}

func (w *workloadUsed) usage(node string, n *nodeUsed) v1alpha1.WorkloadUsage {
	usage := v1alpha1.WorkloadUsage{
		TypeMeta:   typeOf("WorkloadUsage"),
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace.Value(), Name: w.name},
		NodeName:   node, WorkloadName: w.workload.Value(),
		Timestamp: metav1.NewTime(n.at), Window: metav1.Duration{Duration: n.window},
		Usage: w.list(), Containers: make([]v1alpha1.ContainerUsage, 0, len(w.containers)),
	}
	for i := range w.containers {
		c := &w.containers[i]
		usage.Containers = append(usage.Containers, v1alpha1.ContainerUsage{Name: c.name.Value(), Usage: c.list()})
	}
	return usage
}

func typeOf(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{Kind: kind, APIVersion: v1alpha1.GroupVersion.String()}
}

// list is what is used, as the API has it.
func (u *used) list() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewScaledQuantity(u.cpu, resource.Nano),
		corev1.ResourceMemory:           *resource.NewQuantity(u.memory, resource.BinarySI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(u.disk, resource.BinarySI),
	}
}

// most is more than any node has, and leaves room to add them up.
const most = int64(1) << 50

// usedOf takes what a shim says: nothing is less than 0.
func usedOf(list corev1.ResourceList) used {
	bounded := func(name corev1.ResourceName, scale resource.Scale) int64 {
		q := list[name]
		if q.Sign() < 0 {
			return 0
		}
		if q.CmpInt64(most) > 0 {
			return most
		}
		return min(q.ScaledValue(scale), 1<<60)
	}
	return used{
		cpu:    max(bounded(corev1.ResourceCPU, resource.Nano), 0),
		memory: bounded(corev1.ResourceMemory, 0),
		disk:   bounded(corev1.ResourceEphemeralStorage, 0),
	}
}

func (u *used) add(other used) {
	u.cpu += other.cpu
	u.memory += other.memory
	u.disk += other.disk
}
