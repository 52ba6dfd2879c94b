// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package vectors_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/managedworkload/managedworkload/hack/recordings"
	"github.com/managedworkload/managedworkload/runtime/plan/vectors"
)

// Whatever a line holds, it is answered or reported, and the answer is JSON.
func FuzzRun(f *testing.F) {
	f.Add([]byte(freshLine))
	f.Add([]byte(killLine + "\n" + resetLine))
	f.Add([]byte(`{"id":"x","pod":null,"podStatus":{}}`))
	f.Add([]byte(`{"id":"x","pod":{"spec":{"containers":[{"name":"a","restartPolicy":"Never"},{"name":"a"}],` +
		`"initContainers":[{"name":"a","restartPolicy":"Always"}]}},"podStatus":{"sandboxes":[{"state":"READY",` +
		`"attempt":4294967295},{"state":"READY"}],"containers":[{"state":"running"},{"name":"a","state":"unknown"}]}}`))
	for _, line := range everyFiftieth(f, "plan-fuzz") {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var out, errs bytes.Buffer
		err := vectors.Run(bytes.NewReader(in), &out, &errs)
		if (err != nil) != (errs.Len() > 0) {
			t.Errorf("Run error = %v with the report %q", err, errs.String())
		}
		for line := range bytes.Lines(out.Bytes()) {
			if !json.Valid(line) {
				t.Errorf("Answer %q is no JSON", line)
			}
		}
	})
}

// everyFiftieth returns lines of recorded vectors: they reach what is deep inside
// a plan.
func everyFiftieth(f *testing.F, name string) (found [][]byte) {
	f.Helper()
	lines, err := recordings.Lines(name)
	if err != nil {
		f.Fatal(err)
	}
	for i, line := range lines {
		if i%50 == 0 {
			found = append(found, line)
		}
	}
	return found
}
