// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package downwardapi

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMetadata(t *testing.T) {
	tests := map[string]struct {
		path    string
		want    string
		wantErr string
	}{
		"name":           {path: "metadata.name", want: "web"},
		"namespace":      {path: "metadata.namespace", want: "ns"},
		"uid":            {path: "metadata.uid", want: "0f1c-22"},
		"labels":         {path: "metadata.labels", want: "a.b/c=\"d\"\napp=\"web\""},
		"annotations":    {path: "metadata.annotations", want: `note="a \"b\""`},
		"a label":        {path: "metadata.labels['a.b/c']", want: "d"},
		"no such label":  {path: "metadata.labels['x']", want: ""},
		"an annotation":  {path: "metadata.annotations['note']", want: `a "b"`},
		"not metadata":   {path: "spec.nodeName", wantErr: "unsupported fieldPath: spec.nodeName"},
		"bad key":        {path: "metadata.labels['a/b/c']", wantErr: "invalid key subscript"},
		"bad annotation": {path: "metadata.annotations['']", wantErr: "invalid key subscript"},
		"bad subscript":  {path: "metadata.name['a']", wantErr: "does not support subscript"},
		"not closed":     {path: "metadata.labels['a'", wantErr: "unsupported fieldPath"},
	}
	of := &metav1.ObjectMeta{
		UID: "0f1c-22", Namespace: "ns", Name: "web",
		Labels:      map[string]string{"app": "web", "a.b/c": "d"},
		Annotations: map[string]string{"note": "a \"b\""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Metadata(of, tt.path)
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Fatalf("error %v, want %q", err, tt.wantErr)
				}
				return
			}
			if err != nil || got != tt.want {
				t.Errorf("value %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

func TestResource(t *testing.T) {
	tests := map[string]struct {
		resource, divisor string
		want, wantErr     string
	}{
		"CPU limit in cores, rounded up": {resource: "limits.cpu", want: "2"},
		"CPU limit in millicores":        {resource: "limits.cpu", divisor: "1m", want: "1500"},
		"memory limit":                   {resource: "limits.memory", want: "67108864"},
		"memory limit in Mi":             {resource: "limits.memory", divisor: "1Mi", want: "64"},
		"CPU request":                    {resource: "requests.cpu", divisor: "1m", want: "250"},
		"a request that is not set":      {resource: "requests.memory", want: "0"},
		"a limit that is not set":        {resource: "limits.ephemeral-storage", divisor: "1Gi", want: "100"},
		"no such resource":               {resource: "limits.dogs", wantErr: "unsupported container resource : limits.dogs"},
		"no such kind":                   {resource: "wishes.cpu", wantErr: "unsupported container resource : wishes.cpu"},
		"huge pages":                     {resource: "limits.hugepages-2Mi", divisor: "1Mi", want: "4"},
		"huge pages that are not set":    {resource: "limits.hugepages-1Gi", want: "0"},
		"a divisor below the unit":       {resource: "limits.memory", divisor: "1m", want: "67108864"},
	}
	c := &corev1.Container{Resources: corev1.ResourceRequirements{
		Limits: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("1500m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
			"hugepages-2Mi": resource.MustParse("4Mi"),
		},
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")},
	}}
	unset := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"),
		"hugepages-1Gi": resource.MustParse("1Gi"),
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			ref := &corev1.ResourceFieldSelector{Resource: tt.resource}
			if tt.divisor != "" {
				ref.Divisor = resource.MustParse(tt.divisor)
			}
			got, err := Resource(c, ref, unset)
			if tt.wantErr != "" {
				if err == nil || err.Error() != tt.wantErr {
					t.Fatalf("error %v, want %q", err, tt.wantErr)
				}
				return
			}
			if err != nil || got != tt.want {
				t.Errorf("value %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}
