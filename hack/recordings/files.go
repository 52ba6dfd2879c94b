// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package recordings holds the conformance vectors: what functions of the kubelet
// answered to given cases, one JSON object a line. It is the only place that
// reads and writes them. See docs/conformance.md.
package recordings

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"testing"
)

// FolderEnv names a folder whose files replace those of the same name.
const FolderEnv = "RECORDED_VECTORS"

//go:embed testdata/*.jsonl.gz
var files embed.FS

const extension = ".jsonl.gz"

// Lines returns the lines of a file, which has at least one.
func Lines(name string) ([][]byte, error) {
	f, err := open(name + extension)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("unzip %s: %w", name, err)
	}
	var lines [][]byte
	for r := bufio.NewReader(unzipped); ; {
		line, err := r.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			lines = append(lines, line)
		}
		switch {
		case errors.Is(err, io.EOF) && len(lines) == 0:
			return nil, fmt.Errorf("%s has no vectors", name)
		case errors.Is(err, io.EOF):
			return lines, nil
		case err != nil:
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
	}
}

func open(name string) (fs.File, error) {
	if folder := os.Getenv(FolderEnv); folder != "" {
		f, err := os.Open(filepath.Join(folder, name))
		if !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	return files.Open(path.Join("testdata", name))
}

// Write writes lines to a file in a folder.
func Write(folder, name string, lines [][]byte) error {
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	for _, line := range lines {
		if _, err := z.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	if err := z.Close(); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, name+extension), zipped.Bytes(), 0o600)
}

// Decode decodes a line. A field that the type does not have is an error.
func Decode(line []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("decode %.200s: %w", line, err)
	}
	return nil
}

// Each runs a test for every line of a file.
func Each[T any](t *testing.T, name string, check func(t *testing.T, line []byte, v *T)) {
	t.Helper()
	lines, err := Lines(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		var id struct{ ID string }
		if err := json.Unmarshal(line, &id); err != nil {
			t.Fatal(err)
		}
		t.Run(id.ID, func(t *testing.T) {
			v := new(T)
			if err := Decode(line, v); err != nil {
				t.Fatal(err)
			}
			check(t, line, v)
		})
	}
	t.Logf("%s: %d vectors", name, len(lines))
}
