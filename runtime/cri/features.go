// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Features are what the runtime says it can do.
type Features struct {
	// GroupsPolicy: it knows supplementalGroupsPolicy.
	GroupsPolicy bool
	// Handlers are those that runtime classes name, with "" for the default one; empty where
	// the runtime does not say.
	Handlers map[string]HandlerFeatures
}

// HandlerFeatures are what one handler can do.
type HandlerFeatures struct {
	// UserNamespaces, and mounts that are read-only in what is mounted below them.
	UserNamespaces, RecursiveReadOnly bool
}

// Features asks the runtime's status. (kubelet kubelet.go:updateRuntimeUp)
func (c *Client) Features(ctx context.Context) (Features, error) {
	s, err := invoke(ctx, readyTimeout, "ask the runtime's status", c.runtime.Status, &runtimeapi.StatusRequest{})
	if err != nil {
		return Features{}, err
	}
	features := Features{GroupsPolicy: s.GetFeatures().GetSupplementalGroupsPolicy(), Handlers: map[string]HandlerFeatures{}}
	for _, handler := range s.GetRuntimeHandlers() {
		features.Handlers[handler.GetName()] = HandlerFeatures{
			UserNamespaces: handler.GetFeatures().GetUserNamespaces(), RecursiveReadOnly: handler.GetFeatures().GetRecursiveReadOnlyMounts(),
		}
	}
	return features, nil
}
