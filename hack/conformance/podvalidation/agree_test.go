// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podvalidation compares the shim's validation of Pods with the API server's own code.
package podvalidation

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/capabilities"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/hack/podcases"
	"github.com/managedworkload/managedworkload/runtime/podvalidation"
)

// pods is how many Pods are compared.
const pods = 10000

// The values that fields are changed to.
var (
	words = []any{
		"", "a", "A", "a.b", "a_b", "../x", "/x", "..", "..data", "a b", "x=y", strings.Repeat("a", 64), strings.Repeat("a", 260), "Always", "Never", "OnFailure",
		"IfNotPresent", "None", "Bidirectional", "Localhost", "Unmasked", "1.1.1.1", "010.1.1.1", "::1", "1", "-1", "0", "65536", "1Mi", "1.5", "metadata.name", "metadata.labels",
		"metadata.labels['a']", "limits.cpu", "In", "Exists", "http", "v1", "TCP", "kernel.msgmax", "NoExecute", "cpu", "SIGUSR1",
	}
	numbers = []any{0, 1, -1, 2, 31, 255, 511, 512, 65535, 65536, 2147483647, 2147483648, 4294967297}
)

// A Pod that differs in one or two places from a valid one is refused by both, or by neither.
func TestRandomPodsAreRefusedByBoth(t *testing.T) {
	capabilities.Initialize(capabilities.Capabilities{AllowPrivileged: true})
	cases, err := podcases.All()
	if err != nil {
		t.Fatal(err)
	}
	var valid [][]byte
	for _, tc := range cases {
		if len(tc.Want) == 0 {
			valid = append(valid, encode(t, tc))
		}
	}
	r, compared, refused := rand.New(rand.NewPCG(1, 1)), 0, 0
	for range pods {
		pod := changed(t, r, valid[r.IntN(len(valid))])
		if pod == nil || isDeclared(pod) {
			continue
		}
		compared++
		ours, theirs := refusedByShim(pod), refusedByAPIServer(t, pod)
		if len(theirs) > 0 {
			refused++
		}
		if (len(ours) > 0) != (len(theirs) > 0) {
			text, _ := json.Marshal(pod) //nolint:errcheck // it was decoded
			t.Fatalf("the shim says %v, the API server %v of\n%s", ours, theirs, text)
		}
	}
	if refused < pods/10 || compared-refused < pods/10 {
		t.Errorf("of %d Pods %d were refused: the comparison shows nothing", compared, refused)
	}
}

func encode(t *testing.T, tc podcases.Case) []byte {
	t.Helper()
	pod, err := tc.Template()
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// changed returns a Pod that differs from a valid one, nil if it is none that can be decoded, or one that is not
// supported.
func changed(t *testing.T, r *rand.Rand, valid []byte) *corev1.PodTemplateSpec {
	t.Helper()
	var tree any
	if err := json.Unmarshal(valid, &tree); err != nil {
		t.Fatal(err)
	}
	for range 1 + r.IntN(2) {
		tree = change(r, tree)
	}
	data, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	pod, decoder := &corev1.PodTemplateSpec{}, json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if decoder.Decode(pod) != nil {
		return nil
	}
	if unsupported, _ := template.Check(defaulted(pod), field.NewPath("template")); len(unsupported) > 0 {
		return nil
	}
	return pod
}

// change changes one place of a tree.
func change(r *rand.Rand, tree any) any {
	const seldom = 12
	switch node := tree.(type) {
	case map[string]any:
		keys := slices.Sorted(maps.Keys(node))
		if len(keys) == 0 {
			return node
		}
		key := keys[r.IntN(len(keys))]
		if r.IntN(seldom) == 0 {
			delete(node, key)
		} else {
			node[key] = change(r, node[key])
		}
	case []any:
		if len(node) == 0 {
			return node
		}
		i := r.IntN(len(node))
		switch r.IntN(seldom) {
		case 0:
			return append(node, node[i])
		case 1:
			return slices.Delete(node, i, i+1)
		}
		node[i] = change(r, node[i])
	case string:
		return words[r.IntN(len(words))]
	case float64:
		return numbers[r.IntN(len(numbers))]
	case bool:
		return !node
	}
	return tree
}

func defaulted(pod *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	pod = pod.DeepCopy()
	template.SetDefaults(pod)
	return pod
}

// isDeclared is whether the two differ on purpose: the shim refuses a negative grace period, as the manager does, and looks at
// stop signals, which the API server drops while their feature is off.
func isDeclared(pod *corev1.PodTemplateSpec) bool {
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil && *s < 0 {
		return true
	}
	return slices.ContainsFunc(slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers), func(c corev1.Container) bool {
		return c.Lifecycle != nil && c.Lifecycle.StopSignal != nil
	})
}

func refusedByShim(pod *corev1.PodTemplateSpec) field.ErrorList {
	return podvalidation.Validate(defaulted(pod), field.NewPath("template"))
}

func refusedByAPIServer(t *testing.T, of *corev1.PodTemplateSpec) field.ErrorList {
	t.Helper()
	versioned := &corev1.Pod{ObjectMeta: *of.ObjectMeta.DeepCopy(), Spec: *of.Spec.DeepCopy()}
	versioned.Namespace, versioned.Name = "default", "pod"
	legacyscheme.Scheme.Default(versioned)
	pod := &core.Pod{}
	if err := legacyscheme.Scheme.Convert(versioned, pod, nil); err != nil {
		t.Fatal(err)
	}
	podutil.DropDisabledPodFields(pod, nil)
	options := podutil.GetValidationOptionsFromPodSpecAndMeta(&pod.Spec, nil, &pod.ObjectMeta, nil)
	options.ResourceIsPod = true
	return validation.ValidatePodCreate(pod, options)
}
