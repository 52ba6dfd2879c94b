// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/runtime/objects"
)

const app = "r.example/app:v1"

// world is what a Manager works with: Secrets by namespace and name, images by name and
// by what the runtime calls them, and what a pull brings.
type world struct {
	// mu guards secrets where one comes later.
	mu      sync.Mutex
	secrets map[string]*corev1.Secret
	images  map[string]string
	pushed  string
	events  []string
	asked   int
	// away is what the runtime answers where it does not.
	away error
}

func (w *world) Secret(namespace, name string) (*corev1.Secret, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	s, known := w.secrets[namespace+"/"+name]
	if !known {
		return nil, fmt.Errorf("secret %q %w", name, objects.ErrNotReceived)
	}
	if s == nil {
		return nil, apierrors.NewNotFound(corev1.Resource("secret"), name)
	}
	return s, nil
}

func (w *world) ImageRef(_ context.Context, image string) (string, error) {
	if slices.Contains([]string{"sha256:1", "sha256:2"}, image) {
		return image, w.away
	}
	return w.images[image], w.away
}

func (w *world) ListImages(context.Context) ([]Image, error) {
	byID := map[string]*Image{}
	for name, ref := range w.images {
		if byID[ref] == nil {
			byID[ref] = &Image{ID: ref}
		}
		byID[ref].Names = append(byID[ref].Names, name)
	}
	delete(byID, "")
	var all []Image
	for _, image := range byID {
		all = append(all, *image)
	}
	return all, w.away
}

func (w *world) Event(_ *corev1.Pod, fieldPath, eventtype, reason, message string) {
	w.events = append(w.events, strings.TrimSpace(strings.Join([]string{fieldPath, eventtype, reason, message}, " ")))
}

func newWorld() *world {
	w := &world{secrets: map[string]*corev1.Secret{}, images: map[string]string{}, pushed: "sha256:1"}
	for _, namespace := range []string{"a", "b"} {
		s := dockerConfig("pull", `{"r.example":`+user("of-"+namespace)+`}`)
		s.Namespace = namespace
		w.secrets[namespace+"/pull"] = s
	}
	return w
}

func (w *world) manager(dir string) *Manager {
	return New(Config{Dir: dir, Secrets: w, Runtime: w, Events: w}, logr.Discard())
}

func pod(namespace string, secrets ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p"}}
	for _, s := range secrets {
		p.Spec.ImagePullSecrets = append(p.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: s})
	}
	return p
}

// pull pulls for a pod; accept says which user the registry lets in.
func (w *world) pull(t *testing.T, m *Manager, p *corev1.Pod, accept string) (users []string, err error) {
	t.Helper()
	a := m.For(p, app)
	if err := a.Prepare(t.Context()); err != nil {
		return nil, err
	}
	_, err = a.Pull(t.Context(), func(_ context.Context, login *Login) (string, error) {
		name := ""
		if login != nil {
			name = login.Username
		}
		users = append(users, name)
		if name != accept {
			return "", status.Error(codes.Unknown, "denied to "+name)
		}
		w.images[app] = w.pushed
		return w.pushed, nil
	})
	return users, err
}

func mustPull(t *testing.T, m *Manager, p *corev1.Pod, want bool) {
	t.Helper()
	if got, err := m.For(p, app).MustPull(t.Context(), "sha256:1"); err != nil || got != want {
		t.Errorf("pod of %s: must pull %t, error %v, want %t", p.Namespace, got, err, want)
	}
}

// What one tenant has pulled with its Secret is not another's, now or after a restart.
func TestImageBelongsToWhoPulledIt(t *testing.T) {
	w, dir := newWorld(), t.TempDir()
	m := w.manager(dir)
	mustPull(t, m, pod("b"), false) // preloaded
	if _, err := w.pull(t, m, pod("a", "pull"), "of-a"); err != nil {
		t.Fatal(err)
	}
	for _, m := range []*Manager{m, w.manager(dir)} {
		mustPull(t, m, pod("a", "pull"), false)
		mustPull(t, m, pod("a"), true)
		mustPull(t, m, pod("b", "pull"), true)
		mustPull(t, m, pod("b"), true)
	}
	if _, err := w.pull(t, m, pod("b", "pull"), "of-b"); err != nil {
		t.Fatal(err)
	}
	mustPull(t, w.manager(dir), pod("a", "pull"), false)
	mustPull(t, w.manager(dir), pod("b", "pull"), false)
	if _, err := w.pull(t, m, pod("c"), ""); err != nil {
		t.Fatal(err)
	}
	mustPull(t, w.manager(dir), pod("d"), false) // it was pulled without credentials
	noSecrets(t, dir)
}

// noSecrets: no file has anything of a login.
func noSecrets(t *testing.T, dir string) {
	t.Helper()
	files := 0
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		data, err := os.ReadFile(path)
		if err != nil || strings.Contains(string(data), "of-") {
			t.Errorf("%s: %v: %s", path, err, data)
		}
		return nil
	})
	if files == 0 {
		t.Error("no records on the disk")
	}
}

// Each credential is tried, and the failures are told as the kubelet tells them.
func TestEachCredentialIsTried(t *testing.T) {
	w := newWorld()
	w.secrets["a/other"] = dockerConfig("other", `{"r.example/app":`+user("other")+`}`)
	m := w.manager("")
	users, err := w.pull(t, m, pod("a", "pull", "other"), "of-a")
	if want := []string{"other", "of-a"}; err != nil || !slices.Equal(users, want) {
		t.Errorf("tried %q, error %v, want %q", users, err, want)
	}
	_, err = w.pull(t, m, pod("a", "pull", "other"), "none")
	want := "[rpc error: code = Unknown desc = denied to other, rpc error: code = Unknown desc = denied to of-a]"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	if _, err = w.pull(t, m, pod("a", "pull"), "none"); status.Code(err) != codes.Unknown {
		t.Errorf("one failure alone: %v", err)
	}
}

// A Secret that is not there is reported, and the pull is tried without it.
func TestMissingPullSecret(t *testing.T) {
	w := newWorld()
	w.secrets["a/gone"], w.secrets["a/lost"] = nil, nil
	users, err := w.pull(t, w.manager(""), pod("a", "gone", "", "pull", "lost"), "of-a")
	if err != nil || !slices.Equal(users, []string{"of-a"}) {
		t.Errorf("tried %q, error %v", users, err)
	}
	want := []string{"Warning FailedToRetrieveImagePullSecret Unable to retrieve some image pull secrets (gone, lost); attempting to pull the image may not succeed."}
	if !slices.Equal(w.events, want) {
		t.Errorf("events %q, want %q", w.events, want)
	}
}

// A Secret may come a little later than the NodeWorkload. A pull waits for it, not for ever.
func TestPullWaitsForItsSecret(t *testing.T) {
	for name, comes := range map[string]bool{"it comes": true, "it does not": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				late := w.secrets["a/pull"]
				delete(w.secrets, "a/pull")
				begun := time.Now()
				if comes {
					time.AfterFunc(time.Second, func() {
						w.mu.Lock()
						defer w.mu.Unlock()
						w.secrets["a/pull"] = late
					})
				}
				users, _ := w.pull(t, w.manager(""), pod("a", "pull"), "of-a")
				took := time.Since(begun)
				if comes && (!slices.Equal(users, []string{"of-a"}) || len(w.events) > 0 || took > 2*time.Second) {
					t.Errorf("tried %q after %v, events %q", users, took, w.events)
				}
				if !comes && (!slices.Equal(users, []string{""}) || len(w.events) != 1 || took > 2*secretPatience) {
					t.Errorf("tried %q after %v, events %q", users, took, w.events)
				}
			})
		})
	}
}

// While the manager is away a restarted shim has no Secrets: what was pulled with one of
// that name is still the pod's.
func TestImageIsUsableWithoutTheManager(t *testing.T) {
	w, dir := newWorld(), t.TempDir()
	if _, err := w.pull(t, w.manager(dir), pod("a", "pull"), "of-a"); err != nil {
		t.Fatal(err)
	}
	w.secrets = map[string]*corev1.Secret{}
	mustPull(t, w.manager(dir), pod("a", "pull"), false)
	mustPull(t, w.manager(dir), pod("b", "pull"), true)
	w.secrets["a/pull"] = nil // it was deleted
	mustPull(t, w.manager(dir), pod("a", "pull"), true)
}
