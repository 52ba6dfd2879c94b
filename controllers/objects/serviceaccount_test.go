// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"encoding/base64"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	apiobjects "github.com/managedworkload/managedworkload/api/objects"
	subresources "github.com/managedworkload/managedworkload/api/subresources/v1alpha1"
)

func (b *bench) account(name string) apiobjects.Key {
	return apiobjects.Key{Namespace: b.namespace, Ref: apiobjects.AccountRef(name)}
}

func (b *bench) createAccount(name string) types.UID {
	b.t.Helper()
	made, err := admin.CoreV1().ServiceAccounts(b.namespace).Create(b.t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	return made.UID
}

// A manager that may make tokens of an account and may read none sees that it is deleted and made
// again, and tells the nodes that need its tokens. An account that it may make no tokens of holds up
// no other, nor does any hold up objects.
func TestServiceAccountDeletedAndMadeAgain(t *testing.T) {
	b := newBench(t, asManager)
	b.mu.Lock()
	b.checkEvery = 20 * time.Millisecond
	b.mu.Unlock()
	node, err := admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "n-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	first := b.createAccount("web")
	b.createAccount("secret")
	b.grantTokens("web")
	b.shares.need(node.Name, b.account("secret"))
	w := b.watch(node.Name)
	w.expect("BOOKMARK true", "ADDED ServiceAccount secret Forbidden")
	b.shares.need(node.Name, b.account("web"))
	w.expect("DELETED ServiceAccount secret")
	if o := w.expect("ADDED ServiceAccount web Present"); o.ObjectUID != first || o.Name != "serviceaccount.web" || o.Data != nil {
		t.Errorf("sent %v, want the UID %s", o, first)
	}
	if err := admin.CoreV1().ServiceAccounts(b.namespace).Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if o := w.expect("MODIFIED ServiceAccount web NotFound"); o.Message != `serviceaccount "web" not found` || o.ObjectUID != "" {
		t.Errorf("sent %v", o)
	}
	refs := []apiRef{apiobjects.AccountRef("web"), apiobjects.AccountRef("no node needs it")}
	if got, err := b.Availability(t.Context(), b.namespace, refs); err != nil || len(got.NotFound) != 1 || got.NotFound[0] != refs[0] || len(got.NoRight) > 0 {
		t.Errorf("availability %+v, error %v", got, err)
	}
	second := b.createAccount("web")
	if o := w.expect("MODIFIED ServiceAccount web Present"); o.ObjectUID != second || second == first {
		t.Errorf("sent %v, want the UID %s", o, second)
	}
	// A Node that is gone says nothing of the account.
	if err := admin.CoreV1().Nodes().Delete(t.Context(), node.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	o := b.objects[b.account("web")]
	b.mu.Unlock()
	if err := o.check(t.Context()); !apierrors.IsNotFound(err) || b.stateOf(o).State != subresources.ObjectPresent {
		t.Errorf("without the Node: error %v, state %s", err, b.stateOf(o).State)
	}
}

// accountsAPI makes tokens, and notes when. It does not answer about the accounts of one namespace.
type accountsAPI struct {
	Reader
	hangs string

	mu    sync.Mutex
	asked map[string][]time.Time
}

func (a *accountsAPI) ServiceAccounts(namespace string) typedcorev1.ServiceAccountInterface {
	return accountsOf{api: a, namespace: namespace}
}

type accountsOf struct {
	typedcorev1.ServiceAccountInterface
	api       *accountsAPI
	namespace string
}

func (a accountsOf) CreateToken(ctx context.Context, name string, asked *authenticationv1.TokenRequest, _ metav1.CreateOptions) (*authenticationv1.TokenRequest, error) {
	a.api.mu.Lock()
	a.api.asked[a.namespace] = append(a.api.asked[a.namespace], time.Now())
	a.api.mu.Unlock()
	if a.namespace == a.api.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	claims := fmt.Sprintf(`{"kubernetes.io":{"serviceaccount":{"name":%q,"uid":"uid of %s"}}}`, name, a.namespace)
	asked.Status.Token = "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
	return asked, nil
}

// A thousand namespaces with an account each, and one with a thousand accounts of which the API server
// answers about none, cost it no more than the bound in any second, and each account that is answered
// about is known within five minutes.
func TestFloodOfServiceAccounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &accountsAPI{hangs: "hangs", asked: map[string][]time.Time{}}
		shares := &fakeShares{refs: map[string][]apiobjects.Key{}}
		h := NewHub(api, nil, nil, shares)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = h.Start(ctx) })
		synctest.Wait()
		var keys []apiobjects.Key
		for i := range 1000 {
			keys = append(keys, apiobjects.Key{Namespace: "hangs", Ref: apiobjects.AccountRef(fmt.Sprint(i))})
		}
		for i := range 1000 {
			keys = append(keys, apiobjects.Key{Namespace: fmt.Sprint(i), Ref: apiobjects.AccountRef("")})
		}
		shares.refs["n1"] = keys
		w, err := h.Watch(ctx, "n1")
		if err != nil {
			t.Fatal(err)
		}
		known := map[string]types.UID{}
		running.Go(func() {
			for event := range w.ResultChan() {
				if o, ok := event.Object.(*subresources.NodeObject); ok && o.State == subresources.ObjectPresent {
					known[o.Namespace] = o.ObjectUID
				}
			}
		})
		const minutes = 5
		time.Sleep(minutes * time.Minute)
		cancel()
		running.Wait()
		perSecond, total := map[int64]int{}, 0
		for namespace, times := range api.asked {
			if namespace != api.hangs && len(times) < 2 {
				t.Errorf("namespace %s: asked %d times in %d minutes", namespace, len(times), minutes)
			}
			for _, at := range times {
				perSecond[at.Unix()]++
				total++
			}
		}
		for second, asked := range perSecond {
			if asked > checkQPS+checkBurst {
				t.Errorf("second %d: asked %d times", second, asked)
			}
		}
		if most := minutes*60*checkQPS + checkBurst + 1; total > most {
			t.Errorf("asked %d times in all, want at most %d", total, most)
		}
		if asked := len(api.asked[api.hangs]); asked <= maxReads {
			t.Errorf("of the namespace without answers %d accounts were asked about: those before give no way", asked)
		}
		if len(known) != 1000 || known["7"] != "uid of 7" {
			t.Errorf("%d accounts are known, the one of namespace 7 by the UID %q", len(known), known["7"])
		}
	})
}

// A token that does not say whose it is says nothing of the account.
func TestUIDOfAToken(t *testing.T) {
	for token, want := range map[string]types.UID{
		"": "", "a.b": "", "a.!.c": "", "a." + base64.RawURLEncoding.EncodeToString([]byte("no JSON")) + ".c": "",
		"a." + base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"x"}`)) + ".c":                                      "",
		"a." + base64.RawURLEncoding.EncodeToString([]byte(`{"kubernetes.io":{"serviceaccount":{"uid":"x"}}}`)) + ".c": "x",
	} {
		if got, err := uidOf(token); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, error %v, want %q", token, got, err, want)
		}
	}
}
