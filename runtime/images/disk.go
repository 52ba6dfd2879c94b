// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/managedworkload/managedworkload/runtime/statefile"
)

// The folders of records, below the manager's.
const (
	pullingFolder = "pulling" // an intent for each image
	pulledFolder  = "pulled"  // a record for each image
)

// preloadedFile holds the preloaded images.
var preloadedFile = fileKey{"", "preloaded"}

// disk keeps intents and records in a file each, named by a hash, and the preloaded images in one. Without a root it keeps
// nothing.
type disk struct{ root string }

func fileOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

func (d disk) path(folder, file string) string { return filepath.Join(d.root, folder, file) }

// write replaces a file, or removes it if there is nothing to write.
func (d disk) write(folder, file string, content any) error {
	if d.root == "" {
		return nil
	}
	path := d.path(folder, file)
	if content == nil {
		return statefile.Remove(path)
	}
	data, err := json.Marshal(content)
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return statefile.Replace(path, data)
}

// load reads the files of a folder. add takes one; it returns false for one that cannot
// be used. The names of those are returned.
func (d disk) load(folder string, add func(file string, data []byte) bool) (broken map[string]bool, err error) {
	broken = map[string]bool{}
	if d.root == "" {
		return broken, nil
	}
	entries, err := os.ReadDir(filepath.Join(d.root, folder))
	if errors.Is(err, fs.ErrNotExist) {
		return broken, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the records of pulls: %w", err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), statefile.TemporarySuffix) {
			continue
		}
		data, err := os.ReadFile(d.path(folder, e.Name()))
		if err != nil || !add(e.Name(), data) {
			broken[e.Name()] = true
		}
	}
	return broken, nil
}

// loadPreloaded reads the preloaded images. broken says that there is a file that cannot be used.
func (d disk) loadPreloaded() (p preloaded, broken bool, err error) {
	if d.root == "" {
		return nil, false, nil
	}
	data, err := os.ReadFile(d.path(preloadedFile.folder, preloadedFile.file))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read the preloaded images: %w", err)
	}
	if broken = json.Unmarshal(data, &p) != nil; broken {
		p = nil
	}
	return p, broken, nil
}
