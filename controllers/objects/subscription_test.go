// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"testing"
	"testing/synctest"

	apiobjects "github.com/managedworkload/managedworkload/api/objects"
	subresources "github.com/managedworkload/managedworkload/api/subresources/v1alpha1"
)

// A receiver that did not read gets nothing that its node does not need any more, and of the rest
// what is known now.
func TestSlowReceiverGetsWhatHoldsNow(t *testing.T) {
	first := apiKey{Namespace: "ns", Ref: apiRef{Kind: apiobjects.Secret, Name: "first"}}
	second := apiKey{Namespace: "ns", Ref: apiRef{Kind: apiobjects.Secret, Name: "second"}}
	present := func(key apiKey, data string) *subresources.NodeObject {
		o := blank(key)
		o.State, o.Data = subresources.ObjectPresent, map[string][]byte{"k": []byte(data)}
		return o
	}
	tests := map[string]struct {
		change func(h *Hub, s *subscription)
		want   []string
	}{
		"nothing changes": {func(*Hub, *subscription) {}, []string{"ADDED Secret first Present 1", "BOOKMARK true"}},
		"the reference is removed": {func(h *Hub, s *subscription) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.want(s, nil)
		}, []string{"BOOKMARK true"}},
		"another object takes its place": {func(h *Hub, s *subscription) {
			h.mu.Lock()
			h.objects[second] = &object{hub: h, key: second, cancel: func() {}, subscribers: map[*subscription]bool{}}
			h.want(s, []apiKey{second})
			h.mu.Unlock()
			h.set(h.objects[second], present(second, "1"))
		}, []string{"BOOKMARK true", "ADDED Secret second Present 1"}},
		"the object changes": {func(h *Hub, _ *subscription) { h.set(h.objects[first], present(first, "2")) }, []string{"ADDED Secret first Present 2", "BOOKMARK true"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := NewHub(nil, nil, nil, &fakeShares{})
				s := newSubscription(h, "n1")
				h.objects[first] = &object{hub: h, key: first, cancel: func() {}, subscribers: map[*subscription]bool{}}
				h.want(s, []apiKey{first})
				s.begin()
				h.set(h.objects[first], present(first, "1"))
				ctx, cancel := context.WithCancel(t.Context())
				s.cancel = cancel
				go s.run(ctx)
				synctest.Wait() // the first event waits for the receiver
				tc.change(h, s)
				synctest.Wait()
				r := &receiver{s, t}
				r.expect(tc.want...)
				synctest.Wait()
				select {
				case event := <-s.result:
					t.Errorf("and then %s", event.Type)
				default:
				}
				s.Stop()
				synctest.Wait()
			})
		})
	}
}
