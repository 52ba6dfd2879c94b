// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/objects"
	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/managertest"
)

// needing is a NodeWorkload of a node whose template mounts Secrets, and runs.
func needing(namespace, node string, generation int64, secrets ...string) *v1alpha1.NodeWorkload {
	nw := managertest.NodeWorkload(node, "mw")
	nw.Namespace, nw.Generation = namespace, generation
	for _, name := range secrets {
		nw.Spec.Template.Spec.Volumes = append(nw.Spec.Template.Spec.Volumes,
			corev1.Volume{VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name}}})
	}
	return runningNow(nw)
}

// runningNow has the shim report that the template of now runs, and no other.
func runningNow(nw *v1alpha1.NodeWorkload) *v1alpha1.NodeWorkload {
	nw.Status.ObservedGeneration, nw.Status.TemplateHash = nw.Generation, template.Hash(&nw.Spec.Template)
	return nw
}

func account(namespace, name string) objects.Key {
	return objects.Key{Namespace: namespace, Ref: objects.Ref{Kind: objects.ServiceAccount, Name: name}}
}

func secret(namespace, name string) objects.Key {
	return objects.Key{Namespace: namespace, Ref: objects.Ref{Kind: objects.Secret, Name: name}}
}

// A node needs what its NodeWorkloads refer to until they are gone, and is looked at again
// only when that changes.
func TestReferencesOfANode(t *testing.T) {
	x := newIndex()
	x.Observe(needing("a", "n2", 1, "other"))
	var changed []string
	x.ListenReferences(func(node string) { changed = append(changed, node) })
	expect := func(what string, wantChanged []string, want ...objects.Key) {
		t.Helper()
		if diff := cmp.Diff(want, x.References("n1")); diff != "" {
			t.Errorf("%s: n1 needs (-want +got):\n%s", what, diff)
		}
		if !slices.Equal(changed, wantChanged) {
			t.Errorf("%s: changed %q, want %q", what, changed, wantChanged)
		}
		changed = nil
	}
	expect("before", []string{"n2"})
	x.Observe(needing("b", "n1", 1, "tls", "shared"))
	expect("a first", []string{"n1"}, secret("b", "shared"), secret("b", "tls"))
	x.Observe(needing("a", "n1", 1, "shared"))
	expect("another namespace", []string{"n1"}, secret("a", "shared"), secret("b", "shared"), secret("b", "tls"))
	reported := needing("b", "n1", 1, "tls", "shared")
	reported.Status.ObservedGeneration = 1
	x.Observe(reported)
	x.Observe(needing("b", "n1", 2, "shared", "tls"))
	expect("the same", nil, secret("a", "shared"), secret("b", "shared"), secret("b", "tls"))
	over := needing("b", "n1", 2, "shared", "tls")
	over.Status.Phase, over.Status.ContainerStatuses = corev1.PodFailed, []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	x.Observe(over)
	expect("failed, and its containers still run", nil, secret("a", "shared"), secret("b", "shared"), secret("b", "tls"))
	over = over.DeepCopy()
	over.Status.ContainerStatuses = nil
	x.Observe(over)
	expect("ended", []string{"n1"}, secret("a", "shared"))
	x.Gone(over)
	x.Observe(needing("b", "n1", 1, "tls", "shared"))
	expect("gone and made again", []string{"n1", "n1"}, secret("a", "shared"), secret("b", "shared"), secret("b", "tls"))
	deleting := needing("a", "n1", 1, "shared")
	deleting.DeletionTimestamp = &metav1.Time{Time: managertest.Epoch}
	x.Observe(deleting)
	expect("deletion", nil, secret("a", "shared"), secret("b", "shared"), secret("b", "tls"))
	x.Observe(needing("b", "n1", 3, "shared"))
	expect("another template", []string{"n1"}, secret("a", "shared"), secret("b", "shared"))
	x.Gone(needing("b", "n1", 3, "shared"))
	expect("gone", []string{"n1"}, secret("a", "shared"))
	x.Reset(listAt("50", needing("a", "n1", 1, "shared")))
	expect("listed again, without n2", []string{"n2"}, secret("a", "shared"))
}

// Shares of one template hold its references once, also when they were listed again.
func TestReferencesAreShared(t *testing.T) {
	a, b := ShareOf(needing("a", "n1", 1, "x", "y"), nil), ShareOf(needing("b", "n2", 7, "y", "x"), nil)
	if a.Demands.References != b.Demands.References {
		t.Error("equal references are held twice")
	}
	changed := needing("a", "n1", 1, "z")
	if ShareOf(changed, a).Demands != a.Demands {
		t.Error("the template was looked at again although its generation stayed")
	}
	changed.Generation = 2
	if got := ShareOf(changed, a).Demands.References.Objects; len(got) != 1 || got[0].Name != "z" {
		t.Errorf("a new generation refers to %v", got)
	}
}

// A node needs to know of the service account whose tokens its NodeWorkloads ask for, and of no other.
func TestAccountsOfANode(t *testing.T) {
	x := newIndex()
	changed := 0
	x.ListenReferences(func(string) { changed++ })
	expect := func(what string, wantChanged int, want ...objects.Key) {
		t.Helper()
		if diff := cmp.Diff(want, x.References("n1")); diff != "" || changed != wantChanged {
			t.Errorf("%s: changed %d times, want %d; n1 needs (-want +got):\n%s", what, changed, wantChanged, diff)
		}
	}
	nw := needing("a", "n1", 1, "tls")
	nw.Spec.Template.Spec.ServiceAccountName = "agent"
	x.Observe(nw)
	expect("without a token", 1, secret("a", "tls"))
	nw = nw.DeepCopy()
	nw.Generation = 2
	nw.Spec.Template.Spec.Volumes = append(nw.Spec.Template.Spec.Volumes, corev1.Volume{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}}}}}})
	x.Observe(nw)
	expect("with a token", 2, secret("a", "tls"), account("a", "agent"))
	nw = runningNow(nw.DeepCopy())
	x.Observe(nw)
	nw = nw.DeepCopy()
	nw.Generation, nw.Spec.Template.Spec.ServiceAccountName = 3, ""
	x.Observe(nw)
	expect("of another account, while what runs has the first", 3, secret("a", "tls"), account("a", "agent"), account("a", "default"))
	x.Observe(runningNow(nw.DeepCopy()))
	expect("of another account", 4, secret("a", "tls"), account("a", "default"))
}

// A node may ask for the tokens of its own NodeWorkloads only.
func TestTokensOfANode(t *testing.T) {
	x := newIndex()
	nw := needing("a", "n1", 1)
	nw.Spec.Template.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: "vault"}}}}}}}
	x.Observe(nw)
	expect := func(when string, want ...objects.AccountTokens) {
		t.Helper()
		if diff := cmp.Diff(want, x.Tokens("n1", "a", nw.Name)); diff != "" {
			t.Errorf("%s: tokens (-want +got):\n%s", when, diff)
		}
	}
	vault := []objects.Token{{Audience: "vault", ExpirationSeconds: 3600}}
	expect("at first", objects.AccountTokens{Account: "default", Tokens: vault})
	change := func(account string) {
		nw = nw.DeepCopy()
		nw.Generation++
		nw.Spec.Template.Spec.ServiceAccountName = account
		x.Observe(nw)
	}
	report := func() {
		nw = runningNow(nw.DeepCopy())
		x.Observe(nw)
	}
	report()
	change("agent")
	expect("while the one before runs", objects.AccountTokens{Account: "agent", Tokens: vault}, objects.AccountTokens{Account: "default", Tokens: vault})
	if got := x.References("n1"); !slices.Contains(got, account("a", "default")) || !slices.Contains(got, account("a", "agent")) {
		t.Errorf("the node needs %v", got)
	}
	for i := range 9 {
		change(fmt.Sprintf("agent-%d", i))
	}
	all := x.Tokens("n1", "a", nw.Name)
	if len(all) != 1+maxEarlier || all[0].Account != "agent-8" || all[1].Account != "agent-7" || all[maxEarlier].Account != "default" {
		t.Errorf("after many changes: %v", all)
	}
	report()
	expect("once it runs", objects.AccountTokens{Account: "agent-8", Tokens: vault})
	change("agent")
	nw.UID = "another"
	x.Observe(nw)
	expect("another object of the name", objects.AccountTokens{Account: "agent", Tokens: vault})
	for _, other := range [][3]string{{"n2", "a", nw.Name}, {"n1", "b", nw.Name}, {"n1", "a", "other"}} {
		if asked := x.Tokens(other[0], other[1], other[2]); len(asked) > 0 {
			t.Errorf("%v is found", other)
		}
	}
}
