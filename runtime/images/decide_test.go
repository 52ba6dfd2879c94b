// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"errors"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func cred(namespace, name, uid, hash string) Credential {
	return Credential{Source: Source{Namespace: namespace, Name: name, UID: types.UID(uid)}, Hash: hash}
}

func pulledWith(by ...Credential) facts {
	r := &record{Ref: "sha256:1", Names: map[string]grants{}}
	var known grants
	for _, c := range by {
		known.Secrets, _ = merge(known.Secrets, grant{c.Source, c.Hash})
	}
	r.Names["registry/app"] = known
	return facts{pulled: r}
}

func TestDecide(t *testing.T) {
	own := cred("a", "pull", "1", "hash")
	many := make([]Credential, maxNoted)
	for i := range many {
		many[i] = cred("other", fmt.Sprint(i), "1", "hash")
	}
	everyone := facts{pulled: &record{Names: map[string]grants{"registry/app": {Everyone: true}}}}
	for name, tt := range map[string]struct {
		facts    facts
		own      []Credential
		wantPull bool
		wantNote bool
	}{
		"preloaded":                                       {facts{}, nil, false, false},
		"perhaps pulled":                                  {facts{doubtful: true}, []Credential{own}, true, false},
		"pulled, not known how":                           {facts{pulled: &record{}}, []Credential{own}, true, false},
		"pulled without credentials":                      {everyone, nil, false, false},
		"pulled with the own Secret":                      {pulledWith(own), []Credential{own}, false, false},
		"without credentials, pulled with some":           {pulledWith(own), nil, true, false},
		"another tenant's":                                {pulledWith(own), []Credential{cred("b", "pull", "2", "other")}, true, false},
		"another Secret of the same login":                {pulledWith(own), []Credential{cred("b", "pull", "2", "hash")}, false, true},
		"the same Secret, changed":                        {pulledWith(own), []Credential{cred("a", "pull", "1", "new")}, false, true},
		"a Secret of the same name, made again":           {pulledWith(own), []Credential{cred("a", "pull", "2", "new")}, true, false},
		"one of many":                                     {pulledWith(cred("a", "x", "1", "x"), own), []Credential{cred("a", "y", "1", "y"), own}, false, false},
		"the same login, no room for a note":              {pulledWith(many...), []Credential{own}, false, false},
		"the same Secret, changed, no room":               {pulledWith(many...), []Credential{cred("other", "1", "1", "new")}, true, false},
		"a login that could not be hashed":                {pulledWith(cred("b", "x", "1", "")), []Credential{cred("a", "y", "1", "")}, true, false},
		"the own Secret was not received yet":             {pulledWith(own), []Credential{{Source: Source{Namespace: "a", Name: "pull"}, unread: true}}, false, false},
		"another namespace's Secret was not received yet": {pulledWith(own), []Credential{{Source: Source{Namespace: "b", Name: "pull"}, unread: true}}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := decide(tt.facts, "registry/app", func() ([]Credential, error) { return tt.own, nil })
			if err != nil || got.mustPull != tt.wantPull || (got.note != nil) != tt.wantNote {
				t.Errorf("must pull %t, note %v, error %v", got.mustPull, got.note, err)
			}
		})
	}
	t.Run("another name", func(t *testing.T) {
		got, err := decide(pulledWith(own), "registry/other", func() ([]Credential, error) { return []Credential{own}, nil })
		if err != nil || !got.mustPull {
			t.Errorf("must pull %t, error %v: a registry may know the name under other rights", got.mustPull, err)
		}
	})
	t.Run("unusable credentials", func(t *testing.T) {
		broken := errors.New("broken")
		ask := func() ([]Credential, error) { return nil, broken }
		if got, err := decide(pulledWith(own), "registry/app", ask); !errors.Is(err, broken) || !got.mustPull {
			t.Errorf("must pull %t, error %v", got.mustPull, err)
		}
		if got, err := decide(everyone, "registry/app", ask); err != nil || got.mustPull {
			t.Errorf("credentials that do not matter: must pull %t, error %v", got.mustPull, err)
		}
	})
}

func TestWithoutTag(t *testing.T) {
	for image, want := range map[string]string{
		"app": "app", "app:v1": "app", "r:5000/app": "r:5000/app", "r:5000/app:v1": "r:5000/app",
		"r/app@sha256:0": "r/app", "r/app:v1@sha256:0": "r/app",
	} {
		if got := withoutTag(image); got != want {
			t.Errorf("%s: got %s, want %s", image, got, want)
		}
	}
}
