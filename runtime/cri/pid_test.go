// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import "testing"

func TestContainerProcess(t *testing.T) {
	tests := map[string]struct {
		info       string
		want       int
		wantCgroup string
	}{
		"reported":          {`{"pid":4711,"runtimeSpec":{"linux":{"cgroupsPath":"/managedworkload/mw1/c1"}}}`, 4711, "/managedworkload/mw1/c1"},
		"without a cgroup":  {`{"sandboxID":"s","pid":4711,"config":{}}`, 4711, ""},
		"without resources": {`{"pid":4711,"runtimeSpec":{"linux":null}}`, 4711, ""},
		"not running":       {`{"pid":0}`, 0, ""},
		"not reported":      {`{}`, 0, ""},
		"not JSON":          {`pid 4711`, 0, ""},
		"nothing at all":    {``, 0, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			fake, client := newFake(t)
			fake.set(func() { fake.verbose = tt.info })
			pod := newPod()
			id, err := client.CreateContainer(t.Context(), pod, &pod.Spec.Containers[0], plainOptions)
			if err != nil {
				t.Fatal(err)
			}
			got, cgroup, err := client.ContainerProcess(t.Context(), id)
			if got != tt.want || cgroup != tt.wantCgroup || (err == nil) != (tt.want > 0) {
				t.Errorf("process %d in %q, %v, want %d in %q", got, cgroup, err, tt.want, tt.wantCgroup)
			}
		})
	}
}
