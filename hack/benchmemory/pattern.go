// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// pattern makes the NodeWorkloads of workloads on many nodes from those on one node, as
// the manager itself has written them: whatever it writes, it finds.
type pattern struct {
	namespace string
	nodes     int
	// texts are the NodeWorkloads with placeholders, and labels theirs, by workload.
	texts  []string
	labels []map[string]string
	names  []string
	// version is that of the first object; each has its own.
	version int64
	index   map[types.NamespacedName]int
}

// What differs between nodes.
const (
	nameHere, nodeHere, labelHere, uidHere, versionHere = "@NAME@", "@NODE@", "@LABEL@", "@UID@", "@VERSION@"
)

// newPattern learns from the NodeWorkloads of one node.
func newPattern(learned []*unstructured.Unstructured, nodes int, version int64) (*pattern, error) {
	p := &pattern{namespace: namespace, nodes: nodes, version: version, index: map[types.NamespacedName]int{}}
	for w, nw := range learned {
		name := nw.GetLabels()[v1alpha1.LabelWorkload]
		if placement.NodeWorkloadName(name, nodeName(0)) != nw.GetName() {
			return nil, fmt.Errorf("%s is not the name of the NodeWorkload of %s on %s", nw.GetName(), name, nodeName(0))
		}
		here := nw.DeepCopy()
		labels := here.GetLabels()
		labels[v1alpha1.LabelNode] = labelHere
		here.SetLabels(labels)
		here.SetName(nameHere)
		here.SetUID(uidHere)
		here.SetResourceVersion(versionHere)
		if err := unstructured.SetNestedField(here.Object, nodeHere, "spec", "nodeName"); err != nil {
			return nil, fmt.Errorf("learn from %s: %w", nw.GetName(), err)
		}
		p.texts, p.labels, p.names = append(p.texts, string(encode(here))), append(p.labels, labels), append(p.names, name)
		for i := range nodes {
			p.index[p.key(w*nodes+i)] = w*nodes + i
		}
	}
	return p, nil
}

// key is the name of an object.
func (p *pattern) key(i int) types.NamespacedName {
	return types.NamespacedName{Namespace: p.namespace, Name: placement.NodeWorkloadName(p.names[i/p.nodes], nodeName(i%p.nodes))}
}

func (p *pattern) len() int { return len(p.texts) * p.nodes }

// text is an object in JSON.
func (p *pattern) text(i int) []byte {
	w, node := i/p.nodes, nodeName(i%p.nodes)
	return []byte(strings.NewReplacer(
		nameHere, placement.NodeWorkloadName(p.names[w], node), nodeHere, node, labelHere, placement.LabelValue(node),
		uidHere, fmt.Sprintf("11111111-0000-0000-0000-%012d", i), versionHere, strconv.FormatInt(p.version+int64(i), 10),
	).Replace(p.texts[w]))
}

// labelsOf are the labels of an object.
func (p *pattern) labelsOf(i int) map[string]string {
	labels := maps.Clone(p.labels[i/p.nodes])
	labels[v1alpha1.LabelNode] = placement.LabelValue(nodeName(i % p.nodes))
	return labels
}

func (p *pattern) object(i int) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	if err := json.Unmarshal(p.text(i), &o.Object); err != nil {
		panic(err) // it was made from JSON
	}
	return o
}
