// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// hangs is a runtime that does not answer about the path of one container's log, or does not open
// that of another again.
type hangs struct {
	*node
	noPath, noReopen string
}

func (h hangs) LogPath(ctx context.Context, id string) (string, error) {
	if id == h.noPath {
		<-ctx.Done()
		return "", ctx.Err()
	}
	return h.node.LogPath(ctx, id)
}

func (h hangs) ReopenLog(ctx context.Context, id string) error {
	if id == h.noReopen {
		<-ctx.Done()
		return ctx.Err()
	}
	return h.node.ReopenLog(ctx, id)
}

// A container about which the runtime does not answer takes a tenth of the time at most, and the logs of
// others are rotated.
func TestALogThatHangsHoldsUpNoOther(t *testing.T) {
	for name, hung := range map[string]hangs{"its path": {noPath: "a"}, "its rotation": {noReopen: "a"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t)
				n.run(t, "a")
				n.run(t, "b")
				n.write(t, "a", "1234567890")
				config := n.config()
				hung.node = n
				config.Runtime = hung
				m := New(config)
				begun, waited := time.Now(), time.Duration(0)
				for round := 0; time.Since(begun) < 10*time.Minute; round++ {
					n.write(t, "b", "1234567890")
					before, asked := time.Now(), len(n.reopened)
					m.round(t.Context())
					waited += time.Since(before)
					if again := n.reopened[asked:]; !slices.Equal(again, []string{"b"}) {
						t.Fatalf("round %d: rotated %q, want b", round, again)
					}
					time.Sleep(period)
				}
				if waited == 0 || waited > 70*time.Second {
					t.Errorf("the others waited for %s of 10 min, want about a minute", waited)
				}
			})
		})
	}
}
