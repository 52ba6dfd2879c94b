// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// eachVector calls check with every line of a file of conformance vectors,
// decoded strictly: a field that T does not know is a failure. A file without a
// line is one too.
func eachVector[T any](t *testing.T, file string, check func(t *testing.T, line []byte, vector T)) {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "conformance", file))
	if err != nil {
		t.Fatalf("Open vectors: %v", err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Errorf("Close vectors: %v", err)
		}
	})
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatalf("Read vectors: %v", err)
	}
	lines := bufio.NewReader(unzipped)
	count := 0
	for {
		line, err := lines.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			count++
			var vector T
			decodeStrictly(t, line, &vector)
			check(t, line, vector)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("Read vectors: %v", err)
		}
	}
	if count == 0 {
		t.Fatalf("%s has no vectors", file)
	}
	t.Logf("%s: %d vectors", file, count)
}

func decodeStrictly(t *testing.T, data []byte, into any) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		t.Fatalf("Decode %.200s: %v", data, err)
	}
}

// exclusion is a kind of vector that cannot be compared.
type exclusion[T any] struct {
	name, reason string
	applies      func(T) bool
}

// excluded counts the vectors that a rule excludes, by its name.
type excluded map[string]int

func excludes[T any](t *testing.T, rules []exclusion[T], vector T, counts excluded) bool {
	t.Helper()
	for _, rule := range rules {
		if rule.applies(vector) {
			counts[rule.name]++
			return true
		}
	}
	return false
}

func logExclusions[T any](t *testing.T, rules []exclusion[T], counts excluded) {
	t.Helper()
	for _, rule := range rules {
		t.Logf("Excluded: %d by %s (%s)", counts[rule.name], rule.name, rule.reason)
	}
}
