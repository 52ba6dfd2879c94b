// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build record

package recorder

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"

	"github.com/managedworkload/managedworkload/hack/conformance/record/cases"
)

var (
	known  = flag.String("known", "", "the folder of the known vectors")
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
	// decide answers a line anew.
	decide func(t *testing.T, line []byte) []byte
	// create makes new cases from the known ones and answers them.
	create func(t *testing.T, known [][]byte, each func(line []byte))
}

// kindOf is a kind of cases that decide answers and next makes, from the known
// ones or from nothing.
func kindOf[T any](file string, decide func(*testing.T, *T), next func(seed uint64, n int, known []*T) *T) kind {
	return kind{
		file: file,
		decide: func(t *testing.T, line []byte) []byte {
			c := new(T)
			decodeStrictly(t, line, c)
			synctest.Test(t, func(t *testing.T) { decide(t, c) })
			return encode(t, c)
		},
		create: func(t *testing.T, lines [][]byte, each func([]byte)) {
			var from []*T
			for _, line := range lines {
				c := new(T)
				decodeStrictly(t, line, c)
				from = append(from, c)
			}
			for i := range *number {
				c := next(*seed, i, from)
				synctest.Test(t, func(t *testing.T) { decide(t, c) })
				each(encode(t, c))
			}
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
}

// TestRecord records new cases.
func TestRecord(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.file, func(t *testing.T) {
			lines := readLines(t, filepath.Join(*known, k.file+".jsonl.gz"))
			f, err := os.Create(filepath.Join(*output, k.file+".jsonl.gz"))
			must(t, err)
			zipped := gzip.NewWriter(f)
			k.create(t, lines, func(line []byte) {
				_, err := zipped.Write(append(line, '\n'))
				must(t, err)
			})
			must(t, zipped.Close())
			must(t, f.Close())
			t.Logf("%s: %d new vectors", k.file, *number)
		})
	}
}

// TestReproduce answers the known vectors and finds the recorded answers.
func TestReproduce(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.file, func(t *testing.T) {
			lines := readLines(t, filepath.Join(*known, k.file+".jsonl.gz"))
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

func decodeStrictly(t *testing.T, line []byte, into any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	must(t, d.Decode(into))
}

func readLines(t *testing.T, path string) [][]byte {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	must(t, err)
	var lines [][]byte
	scanner := bufio.NewScanner(unzipped)
	scanner.Buffer(nil, 64<<20)
	for scanner.Scan() {
		lines = append(lines, bytes.Clone(scanner.Bytes()))
	}
	must(t, scanner.Err())
	return lines
}
