// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// forbidden is an API server that refuses to be read.
type forbidden struct{ client.Reader }

func (forbidden) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("namespaces \"kube-system\" is forbidden")
}

// A shim that may not ask which cluster this is says so, once.
func TestUnknownClusterIsLogged(t *testing.T) {
	var lines []string
	log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	c := newClusterIdentity(forbidden{}, t.TempDir())
	for range 3 {
		if c.know(logr.NewContext(t.Context(), log)) {
			t.Fatal("the cluster is known")
		}
	}
	if said := slices.DeleteFunc(lines, func(l string) bool { return !strings.Contains(l, "is forbidden") }); len(said) != 1 {
		t.Errorf("logged %q", said)
	}
}

func TestClusterIsRemembered(t *testing.T) {
	dir := t.TempDir()
	api := newFakeAPI(t, interceptor.Funcs{}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "1d"}})
	c := newClusterIdentity(api, dir)
	if got, err := c.remembered(); got != "" || err != nil {
		t.Errorf("remembered %q, error %v, before anything was", got, err)
	}
	id, err := c.ask(t.Context())
	if err != nil || id != "1d" {
		t.Fatalf("asked: %q, error %v", id, err)
	}
	if err := c.remember(id); err != nil {
		t.Fatal(err)
	}
	if got, err := newClusterIdentity(nil, dir).remembered(); got != "1d" || err != nil {
		t.Errorf("remembered %q, error %v", got, err)
	}
	if info, err := os.Stat(filepath.Join(dir, clusterFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, error %v", info.Mode(), err)
	}
}

// A file that a crash or a damaged disk left is no identity: the API server is
// asked, and while it does not answer nothing is labelled, started or killed.
func TestDamagedClusterFile(t *testing.T) {
	tests := map[string]struct {
		content string
		want    string
	}{
		"whole":            {"5b2c-1f\n", "5b2c-1f"},
		"empty":            {"", ""},
		"cut":              {"5b2c", ""},
		"nothing but end":  {"\n", ""},
		"zeros":            {"\x00\x00\x00\x00\n", ""},
		"two lines":        {"5b2c\n1f\n", ""},
		"something else":   {"<html>\n", ""},
		"much too long":    {strings.Repeat("a", 4096) + "\n", ""},
		"a cut in the end": {"5b2c-1f \n", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, clusterFile), []byte(tt.content), 0o600); err != nil {
				t.Fatal(err)
			}
			c := newClusterIdentity(forbidden{}, dir)
			var used []string
			c.use = func(id string) { used = append(used, id) }
			if known := c.know(t.Context()); known != (tt.want != "") || c.current() != tt.want || len(used) != len(tt.want[:min(len(tt.want), 1)]) {
				t.Errorf("known %t, current %q, used %q, want %q", known, c.current(), used, tt.want)
			}
			c.reader = newFakeAPI(t, interceptor.Funcs{}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "1d"}})
			c.asked = time.Time{}
			if !c.know(t.Context()) || c.current() != "1d" {
				t.Errorf("current %q once the API server answers, want its own", c.current())
			}
		})
	}
}

// The API server's answer comes before what was remembered: no sandbox is labelled
// with a former cluster while the present one can be asked.
func TestClusterIsAskedBeforeItIsRemembered(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, clusterFile), []byte("f0rmer\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := newClusterIdentity(newFakeAPI(t, interceptor.Funcs{}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "pre5ent"}}), dir)
	if !c.know(t.Context()) || c.current() != "pre5ent" {
		t.Errorf("current %q", c.current())
	}
}

// An identity that cannot be written is tried again, and the overseer does not wait.
func TestClusterFileIsWrittenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "full")
		c := newClusterIdentity(newFakeAPI(t, interceptor.Funcs{}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "1d"}}), dir)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.keep(ctx) }()
		if !c.know(ctx) {
			t.Fatal("not known")
		}
		time.Sleep(time.Minute)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if got, err := c.remembered(); got != "1d" || err != nil {
			t.Errorf("remembered %q, error %v", got, err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
