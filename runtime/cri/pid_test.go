// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import "testing"

func TestContainerPID(t *testing.T) {
	tests := map[string]struct {
		info string
		want int
	}{
		"reported":       {`{"sandboxID":"s","pid":4711,"config":{}}`, 4711},
		"not running":    {`{"pid":0}`, 0},
		"not reported":   {`{}`, 0},
		"not JSON":       {`pid 4711`, 0},
		"nothing at all": {``, 0},
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
			got, err := client.ContainerPID(t.Context(), id)
			if got != tt.want || (err == nil) != (tt.want > 0) {
				t.Errorf("process %d, %v, want %d", got, err, tt.want)
			}
		})
	}
}
