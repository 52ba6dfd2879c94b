// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"context"
	"maps"
	"slices"
	"testing"
)

// bring has the runtime have an image by names.
func (w *world) bring(ref string, names ...string) {
	for _, name := range names {
		w.images[name] = ref
	}
}

// pullAs pulls an image by a name for a pod.
func (w *world) pullAs(t *testing.T, m *Manager, namespace, image, brings string) {
	t.Helper()
	secrets := []string{"pull"}
	if namespace == "" {
		secrets = nil
	}
	access := m.For(pod(namespace, secrets...), image)
	if err := access.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := access.Pull(t.Context(), func(context.Context, *Login) (string, error) {
		w.images[image] = brings
		return brings, nil
	}); err != nil {
		t.Fatal(err)
	}
}

// An image that was on the node stays every pod's by the names that it had, whatever is pulled
// later; what was pulled with a tenant's Secret is for that tenant, also where the content is the
// same.
func TestPreloadedImageStays(t *testing.T) {
	const there, other, private = "r.example/there:v1", "r.example/other:v1", app
	for name, tt := range map[string]struct {
		do func(t *testing.T, w *world, m *Manager)
		// everyones are the names by which a pod without Secrets may use the image, and closed those
		// by which it has to pull it.
		everyones, closed []string
	}{
		"the same content, by another name, with a Secret": {
			func(t *testing.T, w *world, m *Manager) { w.pullAs(t, m, "a", private, "sha256:1") },
			[]string{there, "r.example/there@" + digest, "sha256:1"}, []string{private, other},
		},
		"the same content, by another name, without a Secret": {
			func(t *testing.T, w *world, m *Manager) { w.pullAs(t, m, "", other, "sha256:1") },
			[]string{there, other}, []string{private},
		},
		"the same name, with a Secret": {
			func(t *testing.T, w *world, m *Manager) { w.pullAs(t, m, "a", there, "sha256:1") },
			[]string{there}, []string{private, other},
		},
		"another tag of the same content, with a Secret": {
			func(t *testing.T, w *world, m *Manager) { w.pullAs(t, m, "a", "r.example/there:v2", "sha256:1") },
			[]string{there}, []string{private, other},
		},
		"a pull that is cut off": {
			func(t *testing.T, w *world, m *Manager) { w.cutOff(t, m, "sha256:1") },
			[]string{there}, []string{private},
		},
		"a pull that fails": {
			func(t *testing.T, w *world, m *Manager) {
				if _, err := w.pull(t, m, pod("a", "pull"), "none"); err == nil {
					t.Error("the pull succeeded")
				}
			},
			[]string{there, "sha256:1"}, nil,
		},
		"it is removed, and pulled by the same name with a Secret": {
			func(t *testing.T, w *world, m *Manager) {
				delete(w.images, there)
				w.pullAs(t, m, "a", there, "sha256:1")
			},
			nil, []string{there, "sha256:1", private},
		},
		"it is removed, and pulled by another name with a Secret": {
			func(t *testing.T, w *world, m *Manager) {
				delete(w.images, there)
				w.pullAs(t, m, "a", private, "sha256:1")
			},
			nil, []string{there, "sha256:1", private},
		},
		"it is imported again by the same name": {
			func(t *testing.T, w *world, m *Manager) {
				w.pullAs(t, m, "a", private, "sha256:1")
				w.bring("sha256:1", there)
			},
			[]string{there}, []string{private},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, dir := newWorld(), t.TempDir()
			w.bring("sha256:1", there)
			m := w.manager(dir)
			tt.do(t, w, m)
			after := w.manager(dir) // the next process
			if err := after.tidy(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, m := range []*Manager{m, after, w.manager(dir)} {
				for want, names := range map[bool][]string{false: tt.everyones, true: tt.closed} {
					for _, name := range names {
						if must, err := m.For(pod("b"), name).MustPull(t.Context(), "sha256:1"); must != want || err != nil {
							t.Errorf("%s: must pull %t, error %v, want %t", name, must, err, want)
						}
					}
				}
			}
		})
	}
}

// An image of which nothing is known but a record of an earlier pull is not taken for preloaded, also
// where a folder is from a shim that kept no preloaded images.
func TestRecordedImageIsNotPreloaded(t *testing.T) {
	w, dir := newWorld(), t.TempDir()
	m := w.manager(dir)
	w.pullAs(t, m, "a", app, "sha256:1")
	if err := m.disk.write(preloadedFile.folder, preloadedFile.file, nil); err != nil {
		t.Fatal(err)
	}
	w.bring("sha256:1", "r.example/imported:later")
	next := w.manager(dir)
	if err := next.tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{app, "r.example/imported:later", "sha256:1"} {
		if must, err := next.For(pod("b"), name).MustPull(t.Context(), "sha256:1"); !must || err != nil {
			t.Errorf("%s: must pull %t, error %v", name, must, err)
		}
	}
}

// While a pull is under way nothing is taken for preloaded: what it has brought is not recorded yet,
// and may have names that the template does not have.
func TestNothingIsPreloadedDuringAPull(t *testing.T) {
	w, dir := newWorld(), t.TempDir()
	m := w.manager(dir)
	access := m.For(pod("a", "pull"), app)
	if err := access.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := access.Pull(t.Context(), func(context.Context, *Login) (string, error) {
		w.bring("sha256:1", app, "mirror.example/app:v1")
		return "sha256:1", m.tidy(t.Context())
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{app, "mirror.example/app:v1", "sha256:1"} {
		if must, err := m.For(pod("b"), name).MustPull(t.Context(), "sha256:1"); !must || err != nil {
			t.Errorf("%s: must pull %t, error %v", name, must, err)
		}
	}
}

// An image that is imported while another is pulled is everyone's, unless the pull may have brought it.
func TestImportDuringAPull(t *testing.T) {
	const imported = "r.example/imported:v1"
	for name, tt := range map[string]struct {
		pulling string
		names   []string
		want    bool
	}{
		"another repository":          {app, []string{imported}, true},
		"the repository of the pull":  {"r.example/imported:v2", []string{imported}, false},
		"it has a name of both":       {app, []string{imported, "r.example/app:v7"}, false},
		"the runtime names it later":  {app, nil, false},
		"the runtime chooses a place": {"some/app", []string{imported}, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := &memory{intents: map[string]*intent{tt.pulling: {Image: tt.pulling, pulls: 1}}}
			m.note([]Image{{ID: "sha256:2", Names: tt.names}})
			if _, got := m.preloaded["sha256:2"]; got != tt.want {
				t.Errorf("counts as imported: %t", got)
			}
		})
	}
}

// Where it cannot be read what was being pulled, only what is known to be imported counts as that, for as long
// as it is there.
func TestImportBesideADamagedIntent(t *testing.T) {
	there, later := Image{ID: "sha256:1", Names: []string{"r.example/there:v1"}}, Image{ID: "sha256:2", Names: []string{"r.example/later:v1"}}
	known, own := Image{ID: "sha256:3", Names: []string{"r.example/known:v1"}}, Image{ID: "sha256:4", Names: []string{app}}
	m := &memory{
		brokenIntents: map[string]bool{"damaged": true}, records: map[string]*record{own.ID: {}}, preloaded: preloaded{known.ID: {"r.example/known"}},
	}
	for _, tt := range []struct {
		list []Image
		want []string
	}{
		{[]Image{there, known, own}, []string{known.ID}},
		{[]Image{there, known, own, later}, []string{known.ID}},
		{[]Image{own, later}, nil},
		{[]Image{there, known, own, later}, nil},
	} {
		m.note(tt.list)
		if got := slices.Sorted(maps.Keys(m.preloaded)); !slices.Equal(got, tt.want) {
			t.Errorf("%d images: %q are preloaded, want %q", len(tt.list), got, tt.want)
		}
	}
}

// Without an answer about the images that there are nothing is pulled: an image that was preloaded
// may be gone, and what comes by its name is not every pod's.
func TestNoPullWithoutTheListOfImages(t *testing.T) {
	w := newWorld()
	w.away = context.DeadlineExceeded
	if users, err := w.pull(t, w.manager(""), pod("a", "pull"), "of-a"); len(users) > 0 || err == nil {
		t.Errorf("pulled with %q, error %v", users, err)
	}
}

func TestPreloadedNames(t *testing.T) {
	p := preloaded{
		"sha256:abcdef": {"docker.io/library/app", "r.example/team/app"}, "0123456789": {"quay.example/lib/tool"},
	}
	for _, tt := range []struct {
		image, ref string
		want       bool
	}{
		{"app", "sha256:abcdef", true},
		{"app:v1", "sha256:abcdef", true},
		{"docker.io/app@" + digest, "sha256:abcdef", true},
		{"r.example/team/app:v2", "sha256:abcdef", true},
		{"r.example/app", "sha256:abcdef", false},
		{"team/app", "sha256:abcdef", true}, // the runtime has found it there
		{"ap", "sha256:abcdef", false},
		{"sha256:abcdef", "sha256:abcdef", true},
		{"abcd", "sha256:abcdef", true},
		{"abc", "sha256:abcdef", false},
		{"sha256:", "sha256:abcdef", false},
		{"sha256:bcdef", "sha256:abcdef", false},
		{"lib/tool", "0123456789", true},
		{"tool", "0123456789", true},
		{"tool", "sha256:other", false},
		{"///", "sha256:abcdef", false},
		{"", "sha256:abcdef", false},
	} {
		if got := p.has(tt.image, tt.ref); got != tt.want {
			t.Errorf("%q of %s: %t, want %t", tt.image, tt.ref, got, tt.want)
		}
	}
}
