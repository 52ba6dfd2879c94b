// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package userns

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/runtime/statefile"
)

// record of a pod's range, in the kubelet's format. (kubelet
// userns_manager.go:userNamespace)
type record struct {
	UIDMappings []mapping `json:"uidMappings"`
	GIDMappings []mapping `json:"gidMappings"`
}

type mapping struct {
	HostID      uint32 `json:"hostId"`
	ContainerID uint32 `json:"containerId"`
	Length      uint32 `json:"length"`
}

func (r *Ranges) record(uid types.UID, first uint32) error {
	mappings := []mapping{{HostID: first, Length: Length}}
	data, err := json.Marshal(record{UIDMappings: mappings, GIDMappings: mappings})
	if err != nil {
		return err
	}
	return statefile.Replace(r.file(uid), data)
}

// recorded returns the first ID of a pod's range as it was written down.
func (r *Ranges) recorded(uid types.UID) (uint32, error) {
	data, err := os.ReadFile(r.file(uid))
	if err != nil {
		return 0, err
	}
	var read record
	if err := json.Unmarshal(data, &read); err != nil {
		return 0, fmt.Errorf("invalid user namespace mappings file: %w", err)
	}
	if len(read.UIDMappings) != 1 || len(read.GIDMappings) != 1 || read.UIDMappings[0] != read.GIDMappings[0] {
		return 0, errors.New("invalid user namespace configuration: GID and UID mapping should be identical")
	}
	return read.UIDMappings[0].first()
}

func (m mapping) first() (uint32, error) {
	switch {
	case m.ContainerID != 0:
		return 0, errors.New("invalid user namespace configuration: UID 0 must be mapped")
	case m.Length != Length:
		return 0, fmt.Errorf("wrong user namespace length %v", m.Length)
	case m.HostID%Length != 0:
		return 0, fmt.Errorf("wrong user namespace offset specified %v", m.HostID)
	case m.HostID < Length:
		return 0, fmt.Errorf("id %v is out of range", m.HostID)
	}
	return m.HostID, nil
}
