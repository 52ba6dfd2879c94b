// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

var update = flag.Bool("update", false, "write the golden files")

// Each testdata/NAME.yaml becomes testdata/NAME.golden.yaml.
func TestDaemonSet(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	converted := 0
	for _, file := range files {
		if strings.HasSuffix(file, ".golden.yaml") {
			continue
		}
		converted++
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			ds := &appsv1.DaemonSet{}
			if err := yaml.UnmarshalStrict(text, ds); err != nil {
				t.Fatal(err)
			}
			result := DaemonSet(ds)
			got, err := result.YAML()
			if err != nil {
				t.Fatal(err)
			}
			golden(t, strings.TrimSuffix(file, ".yaml")+".golden.yaml", got)
			if err := yaml.UnmarshalStrict([]byte(got), &v1alpha1.ManagedWorkload{}); err != nil {
				t.Errorf("the result cannot be read: %v", err)
			}
		})
	}
	if converted == 0 {
		t.Error("nothing was converted")
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

func TestStrategy(t *testing.T) {
	number, percent := intstr.FromInt32, intstr.FromString
	rolling := func(unavailable, surge *intstr.IntOrString) appsv1.DaemonSetUpdateStrategy {
		return appsv1.DaemonSetUpdateStrategy{Type: appsv1.RollingUpdateDaemonSetStrategyType, RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: unavailable, MaxSurge: surge}}
	}
	to := func(unavailable intstr.IntOrString) *v1alpha1.UpdateStrategy {
		return &v1alpha1.UpdateStrategy{RollingUpdate: &v1alpha1.RollingUpdate{MaxUnavailable: &unavailable}}
	}
	tests := map[string]struct {
		from        appsv1.DaemonSetUpdateStrategy
		want        *v1alpha1.UpdateStrategy
		wantDropped []string
	}{
		"none":          {},
		"on delete":     {from: appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}, want: &v1alpha1.UpdateStrategy{Type: v1alpha1.OnDeleteStrategyType}},
		"number":        {from: rolling(ptr.To(number(3)), ptr.To(number(0))), want: to(number(3))},
		"percentage":    {from: rolling(ptr.To(percent("10%")), nil), want: to(percent("10%"))},
		"surge":         {from: rolling(ptr.To(number(0)), ptr.To(number(1))), wantDropped: []string{"maxSurge", "maxUnavailable"}},
		"surge percent": {from: rolling(ptr.To(percent("0%")), ptr.To(percent("20%"))), wantDropped: []string{"maxSurge", "maxUnavailable"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			result := DaemonSet(&appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{UpdateStrategy: tc.from}})
			if diff := cmp.Diff(tc.want, result.ManagedWorkload.Spec.UpdateStrategy); diff != "" {
				t.Errorf("strategy (-want +got):\n%s", diff)
			}
			var dropped []string
			for _, n := range result.Notes {
				if n.Class == Dropped {
					dropped = append(dropped, n.Path[strings.LastIndex(n.Path, ".")+1:])
				}
			}
			if diff := cmp.Diff(tc.wantDropped, dropped); diff != "" {
				t.Errorf("dropped (-want +got):\n%s", diff)
			}
		})
	}
}
