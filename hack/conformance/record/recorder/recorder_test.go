// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build record

package recorder

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"regexp"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"

	"github.com/managedworkload/managedworkload/hack/conformance/record/cases"
	"github.com/managedworkload/managedworkload/hack/recordings"
)

var (
	output = flag.String("output", "", "the folder to write new vectors to")
	seed   = flag.Uint64("seed", 1, "the seed of the new cases")
	number = flag.Int("n", 1000, "how many new cases of each kind to record")
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	utilruntime.ErrorHandlers = nil
	var err error
	if root, err = os.MkdirTemp("", "record-"); err != nil {
		panic(err)
	}
	code := m.Run()
	if err := os.RemoveAll(root); err != nil {
		panic(err)
	}
	os.Exit(code)
}

// kind is a kind of vectors.
type kind struct {
	file string
	// decide answers a line again.
	decide func(t *testing.T, line []byte) []byte
	// create makes new cases from the known ones and answers them.
	create func(t *testing.T, known [][]byte) [][]byte
}

// kindOf is a kind of cases that decide answers and next makes, from the known
// ones or from nothing.
func kindOf[T any](file string, decide func(*testing.T, *T), next func(seed uint64, n int, known []*T) *T) kind {
	return kind{
		file: file,
		decide: func(t *testing.T, line []byte) []byte {
			c := new(T)
			must(t, recordings.Decode(line, c))
			synctest.Test(t, func(t *testing.T) { decide(t, c) })
			return encode(t, c)
		},
		create: func(t *testing.T, known [][]byte) (created [][]byte) {
			var from []*T
			for _, line := range known {
				c := new(T)
				must(t, recordings.Decode(line, c))
				from = append(from, c)
			}
			for i := range *number {
				c := next(*seed, i, from)
				synctest.Test(t, func(t *testing.T) { decide(t, c) })
				created = append(created, encode(t, c))
			}
			return created
		},
	}
}

func alone[T any](next func(seed uint64, n int) *T) func(uint64, int, []*T) *T {
	return func(seed uint64, n int, _ []*T) *T { return next(seed, n) }
}

var kinds = []kind{
	kindOf("plan-fuzz", decidePlan, cases.NewPlan),
	kindOf("plan-upstream", decidePlan, cases.NewPlan),
	kindOf("status", decideStatus, cases.NewStatus),
	kindOf("restart-decision", decideRestart, cases.NewRestart),
	kindOf("grace-table", decideGrace, alone(cases.NewGrace)),
	kindOf("effective-grace", decideEffectiveGrace, alone(cases.NewEffectiveGrace)),
	kindOf("backoff", decideBackoff, alone(cases.NewBackoff)),
	kindOf("kill-trace", decideKill, alone(cases.NewKill)),
	kindOf("order-trace", decideKill, alone(cases.NewOrder)),
	kindOf("gc", decideGC, alone(cases.NewGC)),
	kindOf("syncpod-trace", decideSync, cases.NewSync),
	kindOf("eviction-thresholds", decideThresholds, alone(cases.NewThresholds)),
	kindOf("eviction-rank", decideRank, alone(cases.NewRank)),
	kindOf("eviction-trace", decideEviction, alone(cases.NewEviction)),
}

// TestRecord records new cases.
func TestRecord(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.file, func(t *testing.T) {
			lines, err := recordings.Lines(k.file)
			must(t, err)
			must(t, recordings.Write(*output, k.file, k.create(t, lines)))
			t.Logf("%s: %d new vectors", k.file, *number)
		})
	}
}

// TestReproduce answers the known vectors and finds the recorded answers.
func TestReproduce(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.file, func(t *testing.T) {
			lines, err := recordings.Lines(k.file)
			must(t, err)
			different := 0
			for _, line := range lines {
				var want any
				must(t, json.Unmarshal(line, &want))
				if got := k.decide(t, line); !bytes.Equal(encode(t, want), got) {
					if different++; different <= 10 {
						t.Errorf("want %s\ngot  %s", encode(t, want), got)
					}
				}
			}
			t.Logf("%s: %d known vectors, %d not reproduced", k.file, len(lines), different)
		})
	}
}

// Pointers, and as many spaces as each build of protobuf likes, stand where the
// kubelet prints a whole pod status into an error text.
var (
	podStatus = regexp.MustCompile(`networking container: .*? UTC}`)
	pointers  = regexp.MustCompile(`0x[0-9a-f]{6,}`)
	spaces    = regexp.MustCompile(`  +`)
)

// encode writes a value with sorted keys.
func encode(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	must(t, err)
	var plain any
	must(t, json.Unmarshal(data, &plain))
	data, err = json.Marshal(plain)
	must(t, err)
	return podStatus.ReplaceAllFunc(data, func(text []byte) []byte {
		return spaces.ReplaceAll(pointers.ReplaceAll(text, []byte("0xPTR")), []byte(" "))
	})
}
