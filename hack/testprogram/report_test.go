// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A report names each thing that is in a folder, and a token only by its claims.
func TestReport(t *testing.T) {
	dir := t.TempDir()
	claims := `{"iss":"i","aud":["api","b"],"sub":"system:serviceaccount:a:b","iat":100,"exp":5000,` +
		`"kubernetes.io":{"namespace":"a","node":{"name":"n","uid":"1"},"serviceaccount":{"name":"b","uid":"2"},"warnafter":700}}`
	signed := "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
	folder := filepath.Join(dir, "v")
	if err := os.Mkdir(folder, 0o750); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"a": "x\n", "token": signed, "long": strings.Repeat("x", longestContent+1)} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("a", filepath.Join(folder, "link")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("REPORTED", "yes \"quoted\"")
	out := filepath.Join(dir, "out.json")
	if err := run([]string{"report", out, folder, filepath.Join(dir, "none")}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	var facts map[string]string
	if err := json.Unmarshal(data, &facts); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"variable REPORTED":             `"yes \"quoted\""`,
		"folder " + folder:              "drwxr-x---",
		"file " + folder + "/a":         "-rw-r-----",
		"owner " + folder + "/a":        fmt.Sprintf("%d %d", os.Getuid(), os.Getgid()),
		"content " + folder + "/a":      `"x\n"`,
		"link " + folder + "/link":      "a",
		"reading " + dir + "/none":      "no such file or directory",
		"content " + folder + "/token":  "",
		"mount " + folder + " is tmpfs": "",

		"audience of token " + folder + "/token":           "api b",
		"subject of token " + folder + "/token":            "system:serviceaccount:a:b",
		"issuer of token " + folder + "/token":             "i",
		"service account of token " + folder + "/token":    "b 2",
		"Node of token " + folder + "/token":               "n 1",
		"Pod of token " + folder + "/token":                "",
		"lifetime of token " + folder + "/token":           "600 s",
		"prolonged lifetime of token " + folder + "/token": "4900 s",
	} {
		if facts[key] != want {
			t.Errorf("%s is %q, want %q", key, facts[key], want)
		}
	}
	if long := facts["content "+folder+"/long"]; !strings.HasPrefix(long, "2049 bytes, SHA-256 ") {
		t.Errorf("a long file is reported as %q", long)
	}
	if strings.Contains(string(data), signed) {
		t.Error("the token itself is in the report")
	}
}
