// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"math"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/managedworkload/managedworkload/hack/managertest"
)

// A template requests of a node what the scheduler would count for its Pod.
func TestAmount(t *testing.T) {
	tests := map[string]struct {
		spec string
		want Amount
	}{
		"nothing":                               {`containers: [{name: a}]`, Amount{}},
		"containers":                            {`containers: [{name: a, resources: {requests: {cpu: 100m, memory: 1Ki}}}, {name: b, resources: {requests: {cpu: "1", ephemeral-storage: 1Gi}}}]`, Amount{1100, 1024}},
		"an init container that is larger":      {`{initContainers: [{name: i, resources: {requests: {cpu: "2"}}}], containers: [{name: a, resources: {requests: {cpu: "1"}}}]}`, Amount{MilliCPU: 2000}},
		"a sidecar":                             {`{initContainers: [{name: s, restartPolicy: Always, resources: {requests: {cpu: "2"}}}], containers: [{name: a, resources: {requests: {cpu: "1"}}}]}`, Amount{MilliCPU: 3000}},
		"of the pod, with the class's overhead": {`{resources: {requests: {cpu: "4"}}, overhead: {cpu: 500m}, containers: [{name: a, resources: {requests: {cpu: "1"}}}]}`, Amount{MilliCPU: 4500}},
		"a part of a thousandth":                {`containers: [{name: a, resources: {requests: {cpu: 100u}}}]`, Amount{MilliCPU: 1}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			nw := managertest.NodeWorkload("n1", "mw")
			if err := yaml.UnmarshalStrict([]byte(tc.spec), &nw.Spec.Template.Spec); err != nil {
				t.Fatal(err)
			}
			if got := ShareOf(nw, nil).Amount; got != tc.want {
				t.Errorf("%+v, want %+v", got, tc.want)
			}
		})
	}
	whole := AmountIn(corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("8E")})
	if got := whole.Plus(whole).Memory; got != math.MaxInt64 {
		t.Errorf("more than a number can say: %d", got)
	}
}
