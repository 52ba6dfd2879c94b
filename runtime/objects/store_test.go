// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	apiobjects "github.com/managedworkload/managedworkload/api/objects"
	"github.com/managedworkload/managedworkload/api/subresources/v1alpha1"
)

// changes is what a store has reported, a line for each call.
type changes []string

func (c *changes) note(namespace string, refs []apiobjects.Ref) {
	line := namespace + ":"
	for _, ref := range refs {
		line += " " + string(ref.Kind) + "/" + ref.Name
	}
	*c = append(*c, line)
}

func (c *changes) take() []string {
	taken := *c
	*c = nil
	return taken
}

func sent(kind, name string, change func(*v1alpha1.NodeObject)) *v1alpha1.NodeObject {
	o := &v1alpha1.NodeObject{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: v1alpha1.NodeObjectName(kind, name)},
		ObjectKind: kind, ObjectName: name, ObjectUID: "1", ObjectVersion: "1",
		State: v1alpha1.ObjectPresent, Data: map[string][]byte{"key": []byte("value")},
	}
	if change != nil {
		change(o)
	}
	return o
}

func in(state v1alpha1.ObjectState, message string) func(*v1alpha1.NodeObject) {
	return func(o *v1alpha1.NodeObject) {
		o.State, o.Message, o.ObjectUID, o.ObjectVersion, o.Data = state, message, "", "", nil
	}
}

func apply(t *testing.T, s *Store, batch ...*v1alpha1.NodeObject) {
	t.Helper()
	if err := s.Apply(batch...); err != nil {
		t.Fatalf("Apply: %v", err)
	}
}

func TestAnObjectIsWhatWasSentOfIt(t *testing.T) {
	s := NewStore(nil)
	apply(t, s,
		sent("ConfigMap", "both", func(o *v1alpha1.NodeObject) {
			o.Data["bin"], o.Data["ascii"], o.BinaryKeys, o.Immutable = []byte{0xff}, []byte("a"), []string{"ascii", "bin"}, true
		}),
		sent("Secret", "both", func(o *v1alpha1.NodeObject) { o.SecretType = corev1.SecretTypeDockerConfigJson }))

	c, err := s.ConfigMap("ns", "both")
	yes, no := true, false
	want := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "both", UID: "1", ResourceVersion: "1"}, Immutable: &yes,
		Data: map[string]string{"key": "value"}, BinaryData: map[string][]byte{"bin": {0xff}, "ascii": []byte("a")},
	}
	if diff := cmp.Diff(want, c); err != nil || diff != "" {
		t.Errorf("ConfigMap: %v (-want +got):\n%s", err, diff)
	}
	secret, err := s.Secret("ns", "both")
	wantSecret := &corev1.Secret{
		ObjectMeta: want.ObjectMeta, Immutable: &no, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{"key": []byte("value")},
	}
	if diff := cmp.Diff(wantSecret, secret); err != nil || diff != "" {
		t.Errorf("Secret: %v (-want +got):\n%s", err, diff)
	}
}

func TestWhatCannotBeUsedSaysWhy(t *testing.T) {
	tests := map[string]struct {
		sent      *v1alpha1.NodeObject
		want      string
		notFound  bool
		unknown   bool
		wantKnown bool
	}{
		"never sent": {want: `secret "x" has not been received from the manager yet`, unknown: true},
		"not found": {
			sent: sent("Secret", "x", in(v1alpha1.ObjectNotFound, "")),
			want: `secret "x" not found`, notFound: true, wantKnown: true,
		},
		"forbidden": {
			sent: sent("Secret", "x", in(v1alpha1.ObjectForbidden, "run: kubectl create rolebinding ...")),
			want: "run: kubectl create rolebinding ...",
		},
		"could not be read": {
			sent: sent("Secret", "x", in(v1alpha1.ObjectUnavailable, "timeout")),
			want: `secret "x" has not been received from the manager yet: timeout`, unknown: true,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := NewStore(nil)
			if tt.sent != nil {
				apply(t, s, tt.sent)
			}
			_, err := s.Secret("ns", "x")
			if err == nil || err.Error() != tt.want {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if got := apierrors.IsNotFound(err); got != tt.notFound {
				t.Errorf("not found: %v, want %v", got, tt.notFound)
			}
			if got := errors.Is(err, ErrNotReceived); got != tt.unknown {
				t.Errorf("not received: %v, want %v", got, tt.unknown)
			}
			if got := s.Known("ns", apiobjects.Ref{Kind: "Secret", Name: "x"}); got != tt.wantKnown {
				t.Errorf("known: %v, want %v", got, tt.wantKnown)
			}
		})
	}
}

func TestWhatCannotBeReadStaysAsItWas(t *testing.T) {
	var seen changes
	s := NewStore(seen.note)
	apply(t, s, sent("ConfigMap", "x", nil), sent("ConfigMap", "gone", in(v1alpha1.ObjectNotFound, "")))
	seen.take()
	apply(t, s, sent("ConfigMap", "x", in(v1alpha1.ObjectUnavailable, "timeout")), sent("ConfigMap", "gone", in(v1alpha1.ObjectUnavailable, "timeout")))
	if c, err := s.ConfigMap("ns", "x"); err != nil || c.Data["key"] != "value" {
		t.Errorf("ConfigMap x: %v, %v", c, err)
	}
	if _, err := s.ConfigMap("ns", "gone"); !apierrors.IsNotFound(err) {
		t.Errorf("ConfigMap gone: %v", err)
	}
	if got := seen.take(); got != nil {
		t.Errorf("changes: %q", got)
	}
}

func TestChangesOfABatchAreOneCallForEachNamespace(t *testing.T) {
	var seen changes
	s := NewStore(seen.note)
	other := func(o *v1alpha1.NodeObject) { o.Namespace = "other" }
	batch := []*v1alpha1.NodeObject{sent("Secret", "b", nil), sent("ConfigMap", "a", nil), sent("Secret", "b", other), sent("Secret", "a", nil)}
	apply(t, s, batch...)
	if diff := cmp.Diff([]string{"ns: ConfigMap/a Secret/a Secret/b", "other: Secret/b"}, seen.take()); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}

	// A watch that begins again sends all of it again.
	apply(t, s, batch...)
	if got := seen.take(); got != nil {
		t.Errorf("changes although nothing changed: %q", got)
	}

	// An object that was made again may have the version of the one before.
	apply(t, s, sent("Secret", "a", func(o *v1alpha1.NodeObject) { o.ObjectUID = types.UID("2") }))
	apply(t, s, sent("Secret", "b", in(v1alpha1.ObjectNotFound, "")))
	if diff := cmp.Diff([]string{"ns: Secret/a", "ns: Secret/b"}, seen.take()); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

func TestABadMessageHoldsUpNoOther(t *testing.T) {
	tests := map[string]struct {
		change func(*v1alpha1.NodeObject)
		want   string
	}{
		"kind":      {func(o *v1alpha1.NodeObject) { o.ObjectKind = "Pod" }, `objectKind: "Pod" is neither ConfigMap, Secret nor ServiceAccount`},
		"name":      {func(o *v1alpha1.NodeObject) { o.ObjectName = "" }, "objectName: is empty"},
		"namespace": {func(o *v1alpha1.NodeObject) { o.Namespace = "" }, "metadata.namespace: is empty"},
		"state":     {func(o *v1alpha1.NodeObject) { o.State = "Lost" }, `state: "Lost" is unknown`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := NewStore(nil)
			err := s.Apply(sent("Secret", "bad", tt.change), sent("Secret", "good", nil))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if _, err := s.Secret("ns", "good"); err != nil {
				t.Errorf("the other object: %v", err)
			}
		})
	}
}

func TestWhatIsNotTheNodesAnyMoreIsNotKnown(t *testing.T) {
	s := NewStore(nil)
	apply(t, s, sent("Secret", "a", nil), sent("Secret", "b", nil), sent("Secret", "c", nil))
	key := func(name string) Key { return Key{"ns", apiobjects.Ref{Kind: "Secret", Name: name}} }
	s.Forget(key("a"))
	s.Replace(map[Key]bool{key("a"): true, key("b"): true})
	for name, want := range map[string]bool{"a": false, "b": true, "c": false} {
		if got := s.Known("ns", key(name).Ref); got != want {
			t.Errorf("known %s: %v, want %v", name, got, want)
		}
		if _, err := s.Secret("ns", name); !want && !errors.Is(err, ErrNotReceived) {
			t.Errorf("secret %s: %v", name, err)
		}
	}
}

// What runs may be started again with objects that the manager does not send any more. Nothing
// is killed to be started with them: they may have changed.
func TestWhatIsNeededIsKept(t *testing.T) {
	seen := &changes{}
	s := NewStore(seen.note)
	key := Key{"ns", apiobjects.Ref{Kind: "Secret", Name: "a"}}
	needed := true
	s.KeepWhile(func(asked Key) bool { return needed && asked == key })
	for name, leave := range map[string]func(){"deleted": func() { s.Forget(key) }, "not sent": func() { s.Replace(nil) }} {
		needed = true
		apply(t, s, sent("Secret", "a", nil), sent("Secret", "b", nil))
		leave()
		s.Sweep()
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}, Spec: corev1.PodSpec{Volumes: []corev1.Volume{
			{Name: "v", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "a"}}},
		}}}
		source := &Source{Store: s}
		if _, err := s.Secret("ns", "a"); err != nil || s.Known("ns", key.Ref) || len(source.Missing(t.Context(), pod)) != 1 {
			t.Errorf("%s: error %v, known %t, missing %v", name, err, s.Known("ns", key.Ref), source.Missing(t.Context(), pod))
		}
		seen.take()
		apply(t, s, sent("Secret", "a", nil))
		if got := seen.take(); len(got) != 1 || !s.Known("ns", key.Ref) || len(source.Missing(t.Context(), pod)) != 0 {
			t.Errorf("%s, and sent again: changes %v", name, got)
		}
		leave()
		needed = false
		s.Sweep()
		if _, err := s.Secret("ns", "a"); !errors.Is(err, ErrNotReceived) {
			t.Errorf("%s: kept without need: %v", name, err)
		}
	}
}
