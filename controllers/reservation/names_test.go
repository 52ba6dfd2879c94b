// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/controllers/fleet"
)

// The back-off belongs to the node: whoever asks for more than it has, under whatever name, as
// often as he likes, keeps Pods from it for no longer than one NodeWorkload that stays. What has room
// beside is granted at once.
func TestNewNamesKeepNoPodsAway(t *testing.T) {
	tests := map[string]func(i int) int64{
		"the same amount":        func(int) int64 { return 5000 },
		"ever less":              func(i int) int64 { return 5000 - int64(i) },
		"ever more":              func(i int) int64 { return 5000 + int64(i) },
		"just above what it has": func(int) int64 { return 201 },
	}
	for name, amount := range tests {
		for _, stays := range []time.Duration{40 * time.Second, 330 * time.Second} {
			t.Run(fmt.Sprintf("%s, each %s", name, stays), func(t *testing.T) {
				small := shares(100)[0]
				n := newCrowded(300, nil)
				var full time.Duration
				for i := 0; n.now.Before(n.start.Add(4 * time.Hour)); i++ {
					next := &fleet.Share{Namespace: "ns", Name: fmt.Sprint("new-", i), UID: types.UID(fmt.Sprint("new-", i)), Amount: fleet.Amount{MilliCPU: amount(i)}}
					n.shares = []*fleet.Share{small, next}
					for end := n.now.Add(stays); n.now.Before(end); {
						n.run(10 * time.Second)
						if n.pod.Pending.Reason != "" {
							full += 10 * time.Second
						}
					}
				}
				if len(n.above) > 10 || full > forbearance+4*time.Minute {
					t.Errorf("kept Pods from the node for %s of %s, at minutes %v", full, n.now.Sub(n.start), n.above)
				}
				n.shares = append(n.shares, &fleet.Share{Namespace: "ns", Name: "honest", UID: "honest", Amount: fleet.Amount{MilliCPU: 50}})
				n.run(time.Minute)
				n.expect(t, "one that has room has come", 150, reserved, backOff, reserved)
			})
		}
	}
}

// A template that grows and shrinks all the time is no way around it.
func TestGrowingAgainAndAgain(t *testing.T) {
	n := newCrowded(300, shares(100, 10))
	var full time.Duration
	for i := 0; n.now.Before(n.start.Add(4 * time.Hour)); i++ {
		changed := *n.shares[1]
		changed.Amount.MilliCPU = []int64{5000, 10}[i%2]
		n.shares[1] = &changed
		for range []int{33, 2}[i%2] {
			n.run(10 * time.Second)
			if n.pod.Pending.Reason != "" {
				full += 10 * time.Second
			}
		}
	}
	if full > forbearance+4*time.Minute {
		t.Errorf("kept Pods from the node for %s of %s, at minutes %v", full, n.now.Sub(n.start), n.above)
	}
}
