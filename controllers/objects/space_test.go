// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apiobjects "github.com/managedworkload/managedworkload/api/objects"
	subresources "github.com/managedworkload/managedworkload/api/subresources/v1alpha1"
)

// A namespace makes the manager hold 32 MiB and no more, whatever its templates refer to. What
// nodes have stays theirs; what has no place says so, holds up nothing, and comes when there
// is place.
func TestObjectsOfANamespaceAreBounded(t *testing.T) {
	b := newBench(t, asAdmin)
	large := map[string][]byte{"large": bytes.Repeat([]byte{1}, 1<<20-1000)}
	var keys []apiKey
	const count = 36
	for i := range count {
		name := fmt.Sprintf("large-%02d", i)
		if _, err := admin.CoreV1().ConfigMaps(b.namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, BinaryData: large}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		keys = append(keys, b.configMap(name))
	}
	b.put("first", "1")
	b.shares.need("n1", b.configMap("first"))
	w := b.watch("n1")
	w.expectInitial("ADDED ConfigMap first Present 1")
	b.shares.need("n1", append(keys, b.configMap("first"))...)
	want := "the objects of namespace " + b.namespace + " that nodes need take more than 32 MiB in all"
	held, refused := map[string]bool{}, map[string]bool{}
	for range count {
		_, o := w.next()
		switch {
		case o.State == subresources.ObjectPresent:
			held[o.ObjectName] = true
		case o.State == subresources.ObjectUnavailable && o.Message == want && o.Data == nil:
			refused[o.ObjectName] = true
		default:
			t.Errorf("%s is %s: %s", o.ObjectName, o.State, o.Message)
		}
	}
	if len(held) != 32 || len(refused) != 4 {
		t.Fatalf("%d are held, %d are not", len(held), len(refused))
	}
	b.put("first", "2")
	w.expect("MODIFIED ConfigMap first Present 2")
	refs := []apiRef{b.configMap("first").Ref}
	for name := range refused {
		refs = append(refs, b.configMap(name).Ref)
	}
	if got, err := b.Availability(t.Context(), b.namespace, refs); err != nil || got.TooMuch != want || len(got.NotFound)+len(got.NoRight) > 0 {
		t.Errorf("said of it: %+v, %v", got, err)
	}
	if got, err := b.Availability(t.Context(), b.namespace, refs[:1]); err != nil || got.TooMuch != "" {
		t.Errorf("said of one that is held: %+v, %v", got, err)
	}
	names := slices.Sorted(maps.Keys(held))
	b.delete(names[0])
	w.expect("MODIFIED ConfigMap " + names[0] + " NotFound")
	if text, o := w.next(); !refused[o.ObjectName] || !strings.HasSuffix(text, " Present") {
		t.Errorf("%s when there is place", text)
	}
	b.shares.need("n1", slices.DeleteFunc(append(keys, b.configMap("first")), func(key apiKey) bool { return key.Name == names[1] })...)
	w.expect("DELETED ConfigMap " + names[1])
	if text, o := w.next(); !refused[o.ObjectName] || !strings.HasSuffix(text, " Present") {
		t.Errorf("%s when no node needs another one any more", text)
	}
}

// A namespace makes the manager watch so many objects and no more, whether they exist or not. Who came first stays;
// what has no place says so, holds up nothing, and is watched when there is place.
func TestWatchedObjectsOfANamespaceAreBounded(t *testing.T) {
	b := newBench(t, asAdmin)
	b.maxObjects = 2
	b.put("first", "1")
	b.put("third", "3")
	first, second, third := b.configMap("first"), b.secret("second"), b.configMap("third")
	b.shares.need("n1", first, second)
	w := b.watch("n1")
	w.expectInitial("ADDED ConfigMap first Present 1", "ADDED Secret second NotFound")
	account := apiKey{Namespace: b.namespace, Ref: apiRef{Kind: apiobjects.ServiceAccount, Name: "default"}}
	b.shares.need("n1", first, second, third, account)
	want := "nodes need more than 2 ConfigMaps and Secrets of namespace " + b.namespace
	if o := w.expect("ADDED ConfigMap third Unavailable"); o.Message != want {
		t.Errorf("said of it: %s", o.Message)
	}
	w.expect("ADDED ServiceAccount default NotFound") // none of them
	if got, err := b.Availability(t.Context(), b.namespace, []apiRef{first.Ref, third.Ref}); err != nil || got.TooMuch != want || len(got.NotFound)+len(got.NoRight) > 0 {
		t.Errorf("said of it: %+v, %v", got, err)
	}
	b.shares.need("n1", second, third, account)
	one, _ := w.next()
	other, _ := w.next()
	if got, want := []string{min(one, other), max(one, other)}, []string{"DELETED ConfigMap first", "MODIFIED ConfigMap third Present 3"}; !slices.Equal(got, want) {
		t.Errorf("when there is place: %q, want %q", got, want)
	}
	b.put("third", "4")
	w.expect("MODIFIED ConfigMap third Present 4")
}
