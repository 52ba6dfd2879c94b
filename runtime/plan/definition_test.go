// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import "testing"

func TestMadeFrom(t *testing.T) {
	const other = containerHashV1 + ":0"
	defs := &Definitions{
		Pod:         "v1:pod",
		Containers:  map[string]string{"c": "v9:c", "i": "v9:i"},
		Earlier:     map[string]string{"c": containerHashV1 + ":c"},
		RestartedAt: "now",
	}
	made := func(name, hash string) ContainerStatus {
		return ContainerStatus{ID: name + hash, Name: name, Hash: hash, Recorded: Recorded{RestartedAt: "now"}}
	}
	tests := map[string]struct {
		containers []ContainerStatus
		sandboxes  []SandboxStatus
		want       bool
	}{
		"nothing":                    {want: false},
		"a sandbox alone":            {sandboxes: []SandboxStatus{{Hash: "v1:pod"}}, want: false},
		"all of it":                  {[]ContainerStatus{made("c", "v9:c"), made("i", "v9:i")}, []SandboxStatus{{Hash: "v1:pod"}}, true},
		"an older instance of other": {[]ContainerStatus{made("c", "v9:c"), made("c", "v9:x")}, nil, true},
		"the newest is of other":     {[]ContainerStatus{made("c", "v9:x"), made("c", "v9:c")}, nil, false},
		"one of two":                 {[]ContainerStatus{made("c", "v9:c"), made("i", "v9:x")}, nil, false},
		"as the version before made": {[]ContainerStatus{made("c", containerHashV1+":c")}, nil, true},
		"other, by that version":     {[]ContainerStatus{made("c", other)}, nil, false},
		"not named any more":         {[]ContainerStatus{made("gone", "v9:c")}, nil, false},
		"another sandbox":            {[]ContainerStatus{made("c", "v9:c")}, []SandboxStatus{{Hash: "v1:x"}, {Hash: "v1:pod"}}, false},
		"an older sandbox":           {[]ContainerStatus{made("c", "v9:c")}, []SandboxStatus{{Hash: "v1:pod"}, {Hash: "v1:x"}}, true},
		"before a restart":           {[]ContainerStatus{{ID: "c", Name: "c", Hash: "v9:c"}}, nil, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := MadeFrom(defs, &PodStatus{Containers: tt.containers, Sandboxes: tt.sandboxes}); got != tt.want {
				t.Errorf("MadeFrom = %t, want %t", got, tt.want)
			}
		})
	}
}
