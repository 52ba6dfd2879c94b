// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// tokenFor is a token with these claims, without a signature.
func tokenFor(claims string) string {
	return "h." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".s"
}

func bound(issued time.Time, extra string) string {
	return tokenFor(fmt.Sprintf(`{"iat":%d,"exp":%d,"kubernetes.io":{"namespace":"system","serviceaccount":{"name":"shim","uid":"s"},"node":{"name":"node","uid":"n"}%s}}`,
		issued.Unix(), issued.Add(time.Hour).Unix(), extra))
}

// A token is renewed when four fifths of its time are over, tried again until it is,
// and the old one stays meanwhile.
func TestTokenIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "token")
		first := bound(time.Now(), "")
		if err := os.WriteFile(file, []byte(first+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var asked []time.Duration
		begun := time.Now()
		api := newFakeAPI(t, interceptor.Funcs{SubResourceCreate: func(_ context.Context, _ client.Client, sub string, account, request client.Object, _ ...client.SubResourceCreateOption) error {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, time.Since(begun))
			if len(asked) == 1 {
				return fmt.Errorf("no answer")
			}
			r, ok := request.(*authenticationv1.TokenRequest)
			if !ok || sub != "token" || account.GetNamespace() != "system" || account.GetName() != "shim" ||
				r.Spec.BoundObjectRef.Kind != "Node" || r.Spec.BoundObjectRef.Name != "node" || r.Spec.BoundObjectRef.UID != "n" {
				t.Errorf("asked %s of %s/%s for %+v", sub, account.GetNamespace(), account.GetName(), request)
				return nil
			}
			r.Status.Token = bound(time.Now(), "")
			return nil
		}})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = (&tokenKeeper{api: api, file: file, node: "node"}).keep(ctx) }()
		held := func() (string, []time.Duration) {
			synctest.Wait()
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			defer mu.Unlock()
			return string(data), slices.Clone(asked)
		}
		time.Sleep(48*time.Minute + time.Second)
		if got, asked := held(); got != first+"\n" || len(asked) != 1 || asked[0] != 48*time.Minute {
			t.Errorf("asked at %v, and holds %q", asked, got)
		}
		time.Sleep(time.Minute)
		if got, asked := held(); got == first || len(asked) != 2 {
			t.Errorf("asked at %v, and holds the old token", asked)
		}
		time.Sleep(30 * time.Minute)
		if _, asked := held(); len(asked) != 2 {
			t.Errorf("asked again at %v", asked)
		}
	})
}

// A token that is not of this node alone is left alone.
func TestTokenOfOthers(t *testing.T) {
	old := time.Now().Add(-2 * time.Hour)
	for name, token := range map[string]string{
		"no token":     "secret",
		"no claims":    tokenFor("1"),
		"no base64":    "a.!.c",
		"no node":      tokenFor(`{"iat":1,"exp":2}`),
		"of a pod":     bound(old, `,"pod":{"name":"p"}`),
		"another node": tokenFor(`{"iat":1,"exp":2,"kubernetes.io":{"node":{"name":"another"}}}`),
		"":             "",
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "token")
			if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
				t.Fatal(err)
			}
			k := &tokenKeeper{api: newFakeAPI(t, interceptor.Funcs{}), file: file, node: "node"}
			if err := k.renewIfDue(t.Context()); err == nil {
				t.Error("no error")
			}
			if data, err := os.ReadFile(file); err != nil || string(data) != token {
				t.Errorf("the file holds %q, error %v", data, err)
			}
		})
	}
}
