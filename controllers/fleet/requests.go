// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/rollout"
)

// Requests are the KillRequests of a NodeWorkload. They are not changed.
type Requests struct {
	// Spec is what the node is to do, and Status what its shim reported about that.
	Spec   []v1alpha1.NodeRequest
	Status []v1alpha1.NodeRequestStatus
}

// requestsOf are those of a NodeWorkload, nil for none.
func requestsOf(nw *v1alpha1.NodeWorkload) *Requests {
	if len(nw.Spec.Requests)+len(nw.Status.Requests) == 0 {
		return nil
	}
	return &Requests{Spec: nw.Spec.DeepCopy().Requests, Status: nw.Status.DeepCopy().Requests}
}

// RequestList are the requests of its spec; nil for a Share that is nil.
func (s *Share) RequestList() []v1alpha1.NodeRequest {
	if s == nil || s.Requests == nil {
		return nil
	}
	return s.Requests.Spec
}

// Request is a request of its spec, and what its shim reported about it; nil where there is
// none.
func (s *Share) Request(id string) (asked *v1alpha1.NodeRequest, reported *v1alpha1.NodeRequestStatus) {
	if s.Requests == nil {
		return nil, nil
	}
	for i := range s.Requests.Spec {
		if s.Requests.Spec[i].ID == id {
			asked = &s.Requests.Spec[i]
		}
	}
	for i := range s.Requests.Status {
		if s.Requests.Status[i].ID == id {
			reported = &s.Requests.Status[i]
		}
	}
	return asked, reported
}

// Killing reports whether it has a request that kills, and that is not over.
func (s *Share) Killing() bool {
	return s.Requests != nil && rollout.Killing(s.Requests.Spec, s.Requests.Status)
}

func (s *Share) sameRequests(o *Share) bool {
	return s.Requests == o.Requests || reflect.DeepEqual(s.Requests, o.Requests)
}

// WithRequest are the Shares that have a request of a KillRequest of that name, in no order.
func (x *Index) WithRequest(request types.NamespacedName) []*Share {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return slices.Collect(maps.Values(x.byRequest[request]))
}

func (s *Share) requestKeys() []types.NamespacedName {
	list := s.RequestList()
	if len(list) == 0 {
		return nil
	}
	keys := make([]types.NamespacedName, len(list))
	for i := range list {
		keys[i] = types.NamespacedName{Namespace: s.Namespace, Name: list[i].Name}
	}
	return keys
}
