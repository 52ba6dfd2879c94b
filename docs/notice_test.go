// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// Every folder of this repository that NOTICE names exists.
func TestNoticeNamesFoldersThatExist(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "NOTICE"))
	if err != nil {
		t.Fatal(err)
	}
	paths := regexp.MustCompile(`\b(?:api|runtime|hack|docs)/[\w*/]+`).FindAllString(string(text), -1)
	if len(paths) == 0 {
		t.Error("NOTICE names no folder")
	}
	for _, path := range paths {
		found, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(path)))
		if err != nil || len(found) == 0 {
			t.Errorf("NOTICE names %s, which does not exist (%v)", path, err)
		}
	}
}
