// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package atomicfiles

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func file(data string) File { return File{Data: []byte(data), Mode: 0o644} }

func files(pairs ...string) Content {
	content := Content{Files: map[string]File{}, Mode: 0o777 | fs.ModeSticky}
	for i := 0; i < len(pairs); i += 2 {
		content.Files[pairs[i]] = file(pairs[i+1])
	}
	return content
}

func openRoot(t *testing.T, dir string) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return root
}

func mustWrite(t *testing.T, dir string, content Content) bool {
	t.Helper()
	changed, err := Write(t.Context(), openRoot(t, dir), content)
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

// seen is what a reader of the directory finds, by path; links are followed once, so
// that ".." entries are not in it.
func seen(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), "..") {
			collect(t, found, dir, entry.Name())
		}
	}
	return found
}

func collect(t *testing.T, found map[string]string, dir, name string) {
	t.Helper()
	info, err := os.Stat(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	if !info.IsDir() {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		found[name] = string(data)
		return
	}
	entries, err := os.ReadDir(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) == 0 {
		found[name+"/"] = ""
	}
	for _, entry := range entries {
		collect(t, found, dir, filepath.Join(name, entry.Name()))
	}
}

// hidden are the entries of the layout itself.
func hidden(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "..*"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// Each version replaces the one before: what is new is there, what is gone is gone, and
// nothing of an older version stays on the disk.
func TestVersionsReplaceEachOther(t *testing.T) {
	dir := t.TempDir()
	for _, step := range []struct {
		name    string
		content Content
		want    map[string]string
		changed bool
	}{
		{"first", files("a", "1", "sub/deep/b", "2"), map[string]string{"a": "1", "sub/deep/b": "2"}, true},
		{"the same", files("a", "1", "sub/deep/b", "2"), map[string]string{"a": "1", "sub/deep/b": "2"}, false},
		{"other data", files("a", "3", "sub/deep/b", "2"), map[string]string{"a": "3", "sub/deep/b": "2"}, true},
		{"a file less", files("sub/deep/b", "2"), map[string]string{"sub/deep/b": "2"}, true},
		{"a directory less", files("sub/c", "4"), map[string]string{"sub/c": "4"}, true},
		{"a file where a directory was", files("sub", "5"), map[string]string{"sub": "5"}, true},
		{"a file more", files("sub", "5", "d", "6"), map[string]string{"sub": "5", "d": "6"}, true},
		{"nothing", files(), map[string]string{}, true},
		{"still nothing", files(), map[string]string{}, false},
	} {
		changed := mustWrite(t, dir, step.content)
		if changed != step.changed {
			t.Errorf("%s: changed %v, want %v", step.name, changed, step.changed)
		}
		if diff := cmp.Diff(step.want, seen(t, dir)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
		if got := hidden(t, dir); len(got) != 2 {
			t.Errorf("%s: %v, want ..data and one version", step.name, got)
		}
	}
}

// Programs watch ..data: it is one link to the directory of a version, named by the
// time, and files are links through it.
func TestLayoutIsTheKubelets(t *testing.T) {
	dir := t.TempDir()
	mustWrite(t, dir, files("a", "1", "sub/b", "2"))
	version, err := os.Readlink(filepath.Join(dir, "..data"))
	if err != nil || !strings.HasPrefix(version, "..20") || strings.Contains(version, "/") {
		t.Errorf("..data leads to %q (%v)", version, err)
	}
	for _, name := range []string{"a", "sub"} {
		if to, err := os.Readlink(filepath.Join(dir, name)); err != nil || to != "..data/"+name {
			t.Errorf("%s leads to %q (%v)", name, to, err)
		}
	}
	mustWrite(t, dir, files("a", "3", "sub/b", "2"))
	if next, _ := os.Readlink(filepath.Join(dir, "..data")); next == version {
		t.Error("..data did not move with the update")
	}
}

// A file that is open keeps its data; a reader never sees a file that is half written.
func TestOpenFilesKeepTheirVersion(t *testing.T) {
	dir := t.TempDir()
	mustWrite(t, dir, files("a", "old"))
	open, err := os.Open(filepath.Join(dir, "a"))
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close() //nolint:errcheck // only read
	mustWrite(t, dir, files("a", "new"))
	data := make([]byte, 10)
	if n, _ := open.Read(data); string(data[:n]) != "old" {
		t.Errorf("the open file has %q", data[:n])
	}
}

// Modes and the group are those asked for, whatever the umask is, and a change of them
// alone is an update.
func TestModes(t *testing.T) {
	dir := t.TempDir()
	group := int64(os.Getegid())
	if os.Getuid() == 0 {
		group = 4321
	}
	content := Content{Mode: 0o777 | fs.ModeSticky, Files: map[string]File{
		"plain": {Mode: 0o666}, "sub/private": {Mode: 0o600}, "none": {Mode: 0},
	}}
	check := func(want map[string]fs.FileMode, gid int) {
		t.Helper()
		for name, mode := range want {
			info, err := os.Stat(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode() != mode {
				t.Errorf("%s has mode %v, want %v", name, info.Mode(), mode)
			}
			if _, got := ids(info); got != gid {
				t.Errorf("%s has group %d, want %d", name, got, gid)
			}
		}
	}
	own := map[string]fs.FileMode{
		".": fs.ModeDir | fs.ModeSticky | 0o777, "..data": fs.ModeDir | 0o755,
		"plain": 0o666, "sub": fs.ModeDir | 0o755, "sub/private": 0o600, "none": 0,
	}
	mustWrite(t, dir, content)
	check(own, os.Getegid())
	content.Group = &group
	if !mustWrite(t, dir, content) {
		t.Error("a new group is an update")
	}
	check(map[string]fs.FileMode{
		".": fs.ModeDir | fs.ModeSticky | fs.ModeSetgid | 0o777, "..data": fs.ModeDir | fs.ModeSetgid | 0o755,
		"plain": 0o666, "sub": fs.ModeDir | fs.ModeSetgid | 0o755, "sub/private": 0o640, "none": 0o440,
	}, int(group))
	if mustWrite(t, dir, content) {
		t.Error("the same is no update")
	}
	content.Group = nil
	mustWrite(t, dir, content)
	check(own, os.Getegid())
	content.Files["plain"] = File{Mode: 0o444}
	if !mustWrite(t, dir, content) {
		t.Error("a new mode is an update")
	}
	own["plain"] = 0o444
	check(own, os.Getegid())
}

// A file with an owner is that user's, and so is the link to it: in a sticky directory
// the kernel would not follow it otherwise.
func TestOwner(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("giving files away needs root")
	}
	dir := t.TempDir()
	owner := int64(1234)
	content := files("plain", "x")
	content.Files["token"] = File{Data: []byte("t"), Mode: 0o600, Owner: &owner}
	for range 2 {
		mustWrite(t, dir, content)
		for name, want := range map[string]int{"plain": 0, "token": 1234} {
			for _, stat := range []func(string) (fs.FileInfo, error){os.Stat, os.Lstat} {
				info, err := stat(filepath.Join(dir, name))
				if err != nil {
					t.Fatal(err)
				}
				if uid, _ := ids(info); uid != want {
					t.Errorf("%s (%v) belongs to %d, want %d", name, info.Mode(), uid, want)
				}
			}
		}
	}
	content.Files["token"] = File{Data: []byte("t"), Mode: 0o600}
	if !mustWrite(t, dir, content) {
		t.Error("a new owner is an update")
	}
}

// No path leads out of the directory, and none takes a name of the layout.
func TestPathsAreRefused(t *testing.T) {
	long := strings.Repeat("x", 256)
	for name, want := range map[string]string{
		"":                         "must not be empty",
		"/etc/passwd":              "must be relative path",
		"..":                       "must not contain '..'",
		"a/../../b":                "must not contain '..'",
		"..data":                   "must not start with '..'",
		"./..data_tmp":             "must not start with '..'",
		"..data/x":                 "must not start with '..'",
		".":                        "must name a file",
		"a\x00b":                   "must not contain a NUL",
		long:                       "filenames must be less than or equal to 255 characters",
		strings.Repeat("x/", 3000): "must be less than or equal to 4096 characters",
	} {
		dir := t.TempDir()
		_, err := Write(t.Context(), openRoot(t, dir), files(name, "x"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", name, err, want)
		}
		if got := hidden(t, dir); len(got) > 0 {
			t.Errorf("%q: %v was written", name, got)
		}
	}
}

// Two spellings of a path are one file, always the same one.
func TestTwoSpellingsOfAPath(t *testing.T) {
	for range 20 {
		dir := t.TempDir()
		mustWrite(t, dir, files("a/b", "last", "a//b", "second", "a/./b", "first"))
		if diff := cmp.Diff(map[string]string{"a/b": "last"}, seen(t, dir)); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}
	_, err := Write(t.Context(), openRoot(t, t.TempDir()), files("a", "x", "a//b", "y"))
	if err == nil || !strings.Contains(err.Error(), "a is a file and a directory") {
		t.Errorf("error %v", err)
	}
}

// Links that lie in the directory lead no write and no removal out of it.
func TestLinksLeadNowhere(t *testing.T) {
	outside := t.TempDir()
	precious := filepath.Join(outside, "precious")
	if err := os.WriteFile(precious, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, link := range map[string]string{
		"the current version": "..data", "the next version": "..data_tmp", "an old version": "..2020", "a file": "precious",
	} {
		for _, to := range []string{outside, "../" + filepath.Base(outside)} {
			dir := t.TempDir()
			if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
				t.Fatal(err)
			}
			mustWrite(t, dir, files("precious", "y", "sub/a", "z"))
			if data, err := os.ReadFile(precious); err != nil || string(data) != "x" {
				t.Errorf("%s: what lies outside is %q (%v)", name, data, err)
			}
			if version, err := os.Readlink(filepath.Join(dir, "..data")); err != nil || strings.Contains(version, "/") {
				t.Errorf("%s: ..data leads to %q (%v)", name, version, err)
			}
		}
	}
}

// Only a directory of the layout is a version: what a link to another one shows is
// replaced, and that directory stays.
func TestOnlyVersionsCount(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "other"), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("other", filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, dir, files())
	if version, err := os.Readlink(filepath.Join(dir, "..data")); err != nil || version == "other" {
		t.Errorf("..data leads to %q (%v)", version, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "other")); err != nil {
		t.Error(err)
	}
}

// What a crash has left behind is no obstacle, and goes.
func TestLeftoversOfACrash(t *testing.T) {
	dir := t.TempDir()
	mustWrite(t, dir, files("a", "1"))
	for _, left := range []string{"..2020_01_01_00_00_00.1/sub", "..2021_01_01_00_00_00.2"} {
		if err := os.MkdirAll(filepath.Join(dir, left), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("..2021_01_01_00_00_00.2", filepath.Join(dir, "..data_tmp")); err != nil {
		t.Fatal(err)
	}
	// It crashed before it linked a file, too.
	if err := os.Remove(filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, dir, files("a", "1"))
	if diff := cmp.Diff(map[string]string{"a": "1"}, seen(t, dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := hidden(t, dir); len(got) != 2 {
		t.Errorf("left: %v", got)
	}
}

// Where something is to be mounted there is a directory, whatever the files say; what
// others have put into the directory stays.
func TestMountpoints(t *testing.T) {
	dir := t.TempDir()
	mustWrite(t, dir, files("a", "1", "sub/b", "2"))
	if err := os.Mkdir(filepath.Join(dir, "other"), 0o750); err != nil {
		t.Fatal(err)
	}
	content := files("a", "1", "sub/b", "2")
	content.Mountpoints = []string{"sub/mnt", "mnt/deep"}
	for range 2 {
		mustWrite(t, dir, content)
		want := map[string]string{"a": "1", "sub/mnt/": "", "mnt/deep/": "", "other/": ""}
		if diff := cmp.Diff(want, seen(t, dir)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	content.Mountpoints = []string{"../out"}
	if _, err := Write(t.Context(), openRoot(t, dir), content); err == nil {
		t.Error("no error for a mount outside of the directory")
	}
}

// A version that cannot be written changes nothing.
func TestFailedWriteKeepsTheFiles(t *testing.T) {
	dir := t.TempDir()
	mustWrite(t, dir, files("a", "1"))
	bad := files("a", "2", "b", "3")
	// A directory stands where the link to the new version is made.
	if err := os.MkdirAll(filepath.Join(dir, "..data_tmp", "x"), 0o750); err != nil {
		t.Fatal(err)
	}
	if _, err := Write(t.Context(), openRoot(t, dir), bad); err == nil {
		t.Fatal("no error")
	}
	if diff := cmp.Diff(map[string]string{"a": "1"}, seen(t, dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
