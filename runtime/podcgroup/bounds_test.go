// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podcgroup

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

func testBounds(cpu, memory string, pids int64) Bounds {
	return Bounds{CPU: resource.MustParse(cpu), Memory: resource.MustParse(memory), Pids: pids}
}

func TestBoundsAsTheKernelKeepsThem(t *testing.T) {
	none := withoutLimit
	for name, tt := range map[string]struct {
		bounds Bounds
		driver string
		want   [limitKinds]int64
	}{
		"none":                         {Bounds{}, DriverFS, [limitKinds]int64{none, none, none}},
		"all":                          {testBounds("2", "4Gi", 500), DriverFS, [limitKinds]int64{200000, 4 << 30, 500}},
		"a part of a CPU":              {testBounds("125m", "0", 0), DriverFS, [limitKinds]int64{12500, none, none}},
		"systemd has whole percents":   {testBounds("125m", "0", 0), DriverSystemd, [limitKinds]int64{13000, none, none}},
		"memory is in whole pages":     {testBounds("0", "4097", 0), DriverFS, [limitKinds]int64{none, 4096, none}},
		"a quota has a lower bound":    {testBounds("1m", "0", 0), DriverFS, [limitKinds]int64{1000, none, none}},
		"less than a page is one page": {testBounds("0", "1", 0), DriverFS, [limitKinds]int64{none, 4096, none}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, tt.bounds.limits(tt.driver)); diff != "" {
				t.Errorf("limits (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExceededBounds(t *testing.T) {
	limits := func(cpu, memory string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Limits: list(cpu, memory), Requests: list(cpu, memory)}
	}
	requests := func(cpu, memory string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: list(cpu, memory)}
	}
	bounds := testBounds("2", "4Gi", 100)
	const path = "spec.template.spec."
	for name, tt := range map[string]struct {
		pod    *corev1.Pod
		bounds Bounds
		want   []string
	}{
		"nothing is declared":           {withResources(corev1.ResourceRequirements{}), bounds, nil},
		"as much as the bound":          {withResources(limits("2", "4Gi")), bounds, nil},
		"in other units":                {withResources(limits("2000m", "4096Mi")), bounds, nil},
		"no bound":                      {withResources(limits("64", "1Ti")), Bounds{}, nil},
		"another bound":                 {withResources(limits("2", "5Gi")), testBounds("2", "0", 0), nil},
		"some containers have no limit": {withResources(limits("1", "3Gi"), corev1.ResourceRequirements{}), bounds, nil},
		"memory of a container": {withResources(limits("1", "1Gi"), limits("1", "6Gi")), bounds, []string{
			path + `containers[1].resources.limits[memory]: Invalid value: "6Gi": above this node's --max-memory=4Gi`,
		}},
		"both of a container": {withResources(limits("2001m", "6Gi")), bounds, []string{
			path + `containers[0].resources.limits[cpu]: Invalid value: "2001m": above this node's --max-cpu=2`,
			path + `containers[0].resources.limits[memory]: Invalid value: "6Gi": above this node's --max-memory=4Gi`,
		}},
		"limits together": {withResources(limits("1500m", ""), limits("1", "")), bounds, []string{
			path + `containers: Invalid value: "2500m": the limits of cpu add up to more than this node's --max-cpu=2`,
		}},
		"a limit beside a container without one": {withResources(limits("3", ""), corev1.ResourceRequirements{}), bounds, []string{
			path + `containers[0].resources.limits[cpu]: Invalid value: "3": above this node's --max-cpu=2`,
		}},
		"a request": {withResources(requests("", "5Gi")), bounds, []string{
			path + `containers[0].resources.requests[memory]: Invalid value: "5Gi": above this node's --max-memory=4Gi`,
		}},
		"requests together": {withResources(requests("", "3Gi"), requests("", "2Gi")), bounds, []string{
			path + `containers: Invalid value: "5Gi": the requests of memory add up to more than this node's --max-memory=4Gi`,
		}},
		"an init container": {testPod(func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Resources: limits("", "5Gi")}}
		}), bounds, []string{
			path + `initContainers[0].resources.limits[memory]: Invalid value: "5Gi": above this node's --max-memory=4Gi`,
		}},
		"init containers run one after another": {testPod(func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Resources: limits("", "3Gi")}, {Resources: limits("", "3Gi")}}
		}), bounds, nil},
		"sidecars run beside the others": {testPod(func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Resources: limits("", "3Gi"), RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}}
			p.Spec.Containers[0].Resources = limits("", "3Gi")
		}), bounds, []string{
			path + `containers: Invalid value: "6Gi": the limits of memory add up to more than this node's --max-memory=4Gi`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, err := range tt.bounds.Exceeded(tt.pod, field.NewPath("spec", "template", "spec")) {
				got = append(got, err.Error())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("exceeded (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNextStepOfABound(t *testing.T) {
	const none = withoutLimit
	for name, tt := range map[string]struct {
		now, wanted int64
		held        *claim
		want        boundStep
	}{
		"first set":                              {none, 100, nil, boundStep{change: true, value: 100, claim: &claim{100, none}}},
		"an administrator's limit is remembered": {300, 100, nil, boundStep{change: true, value: 100, claim: &claim{100, 300}}},
		"it is there already":                    {100, 100, nil, boundStep{value: 100, claim: &claim{100, 100}}},
		"it stays":                               {100, 100, &claim{100, none}, boundStep{value: 100, claim: &claim{100, none}}},
		"something else changed it":              {500, 100, &claim{100, none}, boundStep{change: true, value: 100, claim: &claim{100, none}}},
		"the flag changed":                       {100, 200, &claim{100, 300}, boundStep{change: true, value: 200, claim: &claim{200, 300}}},
		"the flag is not set any more":           {100, none, &claim{100, none}, boundStep{change: true, value: none, released: true}},
		"with an administrator's limit before":   {100, none, &claim{100, 300}, boundStep{change: true, value: 300, released: true}},
		"someone else has set another since":     {400, none, &claim{100, none}, boundStep{value: none, released: true}},
		"the same was there before":              {100, none, &claim{100, 100}, boundStep{value: 100, released: true}},
	} {
		t.Run(name, func(t *testing.T) {
			tt.want.now = tt.now
			if diff := cmp.Diff(tt.want, nextStep(cpuLimit, tt.now, tt.wanted, tt.held), cmp.AllowUnexported(boundStep{})); diff != "" {
				t.Errorf("step (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseLimit(t *testing.T) {
	for text, tt := range map[string]struct {
		kind      limitKind
		want      int64
		wantError bool
	}{
		"max 100000":           {kind: cpuLimit, want: withoutLimit},
		"-1 100000":            {kind: cpuLimit, want: withoutLimit},
		"50000 100000":         {kind: cpuLimit, want: 50000},
		"400000 200000":        {kind: cpuLimit, want: 200000},
		"400000":               {kind: cpuLimit, wantError: true},
		"400000 0":             {kind: cpuLimit, wantError: true},
		"max":                  {kind: memoryLimit, want: withoutLimit},
		"9223372036854771712":  {kind: memoryLimit, want: withoutLimit},
		"4096":                 {kind: memoryLimit, want: 4096},
		"500":                  {kind: pidsLimit, want: 500},
		"":                     {kind: pidsLimit, wantError: true},
		"99999999999999999999": {kind: memoryLimit, wantError: true},
	} {
		if got, err := parseLimit(tt.kind, text); got != tt.want || (err != nil) != tt.wantError {
			t.Errorf("%q: %d, %v, want %d", text, got, err, tt.want)
		}
	}
}

func TestStatistic(t *testing.T) {
	const stat = "anon 4096\ninactive_file 100\ntotal_inactive_file 300\nactive_file x\n"
	for name, want := range map[string]int64{"inactive_file": 100, "total_inactive_file": 300, "active_file": 0, "file": 0, "": 0} {
		if got := statistic(stat, name); got != want {
			t.Errorf("%q: %d, want %d", name, got, want)
		}
	}
}

// Bounds without a parent would be those of the node.
func TestBoundsNeedAParent(t *testing.T) {
	for _, config := range []Config{
		{Bounds: testBounds("1", "0", 0)}, {Parent: "/", Bounds: testBounds("0", "1Gi", 0)}, {Parent: "/", PodPids: 5}, {Bounds: Bounds{Pids: 1}},
	} {
		if _, err := New(config); err == nil || !strings.Contains(err.Error(), "--cgroup-parent") {
			t.Errorf("%+v: %v", config, err)
		}
	}
	newManager(t, Config{Parent: "/"})
}
