// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package poddir

import "path/filepath"

// Places is where a pod keeps what counts as its use of the node's disk.
type Places struct {
	// EmptyDirs holds a directory for each emptyDir, Logs one for each container.
	EmptyDirs, Logs string
	// HostsFile is the pod's hosts file, whether there is one or not.
	HostsFile string
}

// PlacesOf returns the places of a pod.
func (m *Manager) PlacesOf(id Identity) Places {
	return Places{
		EmptyDirs: m.volumes.EmptyDirs(id.UID), Logs: m.logDirectory(id),
		HostsFile: filepath.Join(m.podDir(id.UID), etcHostsFile),
	}
}
