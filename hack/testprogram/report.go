// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// longestContent is the length up to which a report quotes a file.
const longestContent = 2 << 10

// report writes down what this process sees from inside its container: its ids, its
// variables, and all that is in folders. Each fact has a key of its own, so that two
// reports can be compared.
func report(args []string) error {
	facts := map[string]string{}
	if err := reportProcess(facts); err != nil {
		return err
	}
	for _, folder := range args[1:] {
		reportMount(facts, folder)
		err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				facts["reading "+path] = reason(err)
				return nil
			}
			return reportFile(facts, path)
		})
		if err != nil {
			return err
		}
	}
	data, err := json.MarshalIndent(facts, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(args[0], data, 0o644)
}

func reportProcess(facts map[string]string) error {
	groups, err := os.Getgroups()
	if err != nil {
		return err
	}
	slices.Sort(groups)
	facts["ids"] = fmt.Sprintf("user %d group %d groups %d", os.Geteuid(), os.Getegid(), groups)
	for _, variable := range os.Environ() {
		name, value, _ := strings.Cut(variable, "=")
		if _, twice := facts["variable "+name]; twice {
			facts["variable "+name] += " and again"
		}
		facts["variable "+name] += strconv.Quote(value)
	}
	return nil
}

// reportMount says whether a folder is a mount that can be written to, and of what kind.
func reportMount(facts map[string]string, folder string) {
	for _, kind := range []string{"ro", "rw", "tmpfs"} {
		if checkMount([]string{folder, kind}) == nil {
			facts["mount "+folder+" is "+kind] = "true"
		}
	}
}

func reportFile(facts map[string]string, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a volume was updated
	}
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("no owner known for %s", path)
	}
	// The mode of a link and the size of a folder mean nothing.
	facts["owner "+path] = fmt.Sprintf("%d %d", owner.Uid, owner.Gid)
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(path)
		facts["link "+path] = target
		return err
	case info.IsDir():
		facts["folder "+path] = info.Mode().String()
		return nil
	}
	facts["file "+path] = info.Mode().String()
	data, err := os.ReadFile(path)
	switch token, isToken := parseToken(data); {
	case err != nil:
		facts["content "+path] = reason(err)
	case isToken:
		token.report(facts, path)
	case len(data) > longestContent:
		facts["content "+path] = fmt.Sprintf("%d bytes, SHA-256 %x", len(data), sha256.Sum256(data))
	default:
		facts["content "+path] = strconv.Quote(string(data))
	}
	return nil
}

// reason is an error without the path, which may be new each time.
func reason(err error) string {
	if errno, isErrno := errors.AsType[syscall.Errno](err); isErrno {
		return errno.Error()
	}
	return err.Error()
}
