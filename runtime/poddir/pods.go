// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package poddir

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Pods are the pods that have a directory or logs on the node, sorted by UID.
// Namespace and name are empty where they were not written down.
func (m *Manager) Pods(ctx context.Context) ([]Identity, error) {
	byUID := map[types.UID]Identity{}
	logs, err := m.listLogs(ctx)
	if err != nil {
		return nil, fmt.Errorf("list log directories: %w", err)
	}
	for _, entry := range logs {
		if id, ok := parseLogDirectory(entry.Name()); ok && entry.IsDir() {
			byUID[id.UID] = id
		}
	}
	dirs, err := os.ReadDir(m.rootDir)
	if err != nil {
		return nil, fmt.Errorf("list pod directories: %w", err)
	}
	for _, entry := range dirs {
		uid := types.UID(entry.Name())
		if _, known := byUID[uid]; !known && entry.IsDir() {
			byUID[uid] = m.readIdentity(uid)
		}
	}
	pods := make([]Identity, 0, len(byUID))
	for _, id := range byUID {
		pods = append(pods, id)
	}
	slices.SortFunc(pods, func(a, b Identity) int { return strings.Compare(string(a.UID), string(b.UID)) })
	return pods, nil
}

// readIdentity trusts the directory's name more than what is written in it.
func (m *Manager) readIdentity(uid types.UID) Identity {
	var id Identity
	content, err := os.ReadFile(filepath.Join(m.podDir(uid), identityFile))
	if err != nil || json.Unmarshal(content, &id) != nil || id.UID != uid || id.validate() != nil {
		return Identity{UID: uid}
	}
	return id
}
