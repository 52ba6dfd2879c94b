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

// A workload that is deleted and made again does not keep Pods from its node for longer, or more
// often, than one that stays: once for as long as the kubelet may take, then for retries that
// become rare.
func TestMadeAgainAndAgain(t *testing.T) {
	for _, stays := range []time.Duration{30 * time.Second, forbearance - time.Minute, forbearance + time.Minute, 50 * time.Minute} {
		t.Run(stays.String(), func(t *testing.T) {
			small, large := shares(100)[0], shares(100, 5000)[1]
			n := newCrowded(300, nil)
			var full time.Duration
			for i := 0; n.now.Before(n.start.Add(4 * time.Hour)); i++ {
				again := *large
				again.UID = types.UID(fmt.Sprintf("again-%d", i))
				n.shares = []*fleet.Share{small, &again}
				for end := n.now.Add(stays); n.now.Before(end); {
					n.run(10 * time.Second)
					if n.pod.Pending.Reason != "" {
						full += 10 * time.Second
					}
				}
				n.shares = []*fleet.Share{small}
				n.run(time.Minute)
			}
			if len(n.above) > 7 || full > forbearance+2*time.Minute {
				t.Errorf("kept Pods from the node for %s, at minutes %v", full, n.above)
			}
			n.expect(t, "at the end", 100, reserved)
		})
	}
}

// What is made again has what it asks for when there is room.
func TestMadeAgainWithRoom(t *testing.T) {
	all := shares(100, 5000)
	n := newCrowded(300, all)
	n.run(time.Minute)
	n.shares = all[:1]
	n.run(time.Minute)
	again := *all[1]
	again.UID = "again"
	n.shares = []*fleet.Share{all[0], &again}
	n.run(time.Minute)
	n.expect(t, "made again", 100, reserved, backOff)
	n.room = 6000
	n.run(firstRetry)
	n.expect(t, "Pods have left", 5100, reserved, reserved)

	smaller := again
	smaller.UID, smaller.Amount.MilliCPU = "smaller", 150
	n.room, n.shares = 300, all[:1]
	n.run(time.Minute)
	n.shares = []*fleet.Share{all[0], all[1]}
	n.run(time.Minute)
	n.shares = []*fleet.Share{all[0], &smaller}
	n.run(time.Minute)
	n.expect(t, "made again with less", 250, reserved, reserved)
}

// Of what was refused only so much is remembered, and for so long.
func TestRefusalsAreForgotten(t *testing.T) {
	n := newCrowded(300, nil)
	for i := range 3 * maxRefusals {
		n.shares = []*fleet.Share{{Namespace: "ns", Name: fmt.Sprint(i), Amount: fleet.Amount{MilliCPU: 5000, Memory: int64(i) << 30}}}
		n.run(time.Minute)
	}
	n.shares = nil
	n.run(time.Minute)
	if got := len(n.retries.refusals); got == 0 || got > maxRefusals {
		t.Errorf("%d are remembered, want some and at most %d", got, maxRefusals)
	}
	n.run(lastRetry + refusalKept)
	if got := len(n.retries.refusals); got > 0 {
		t.Errorf("%d are remembered for good", got)
	}
}
