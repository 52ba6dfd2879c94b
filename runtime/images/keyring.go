// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"cmp"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
)

// dockerHub is where credentials of the default registry are kept.
const dockerHub = "index.docker.io"

// located is a credential and where it applies: at a host, whose labels may be patterns,
// and below a path.
type located struct {
	at string
	Credential
}

// credentialsFor returns the candidates for a pull of an image, the most specific ones
// first, those of one place in the order of the Secrets.
// (kubelet credentialprovider/keyring.go: Add, Lookup)
func credentialsFor(image string, secrets []*corev1.Secret) ([]Credential, error) {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return nil, err
	}
	ring, err := locate(secrets)
	if err != nil {
		return nil, err
	}
	found := candidates(ring, func(l located) bool { return covers(l.at, named.Name()) })
	if len(found) == 0 && ofDefaultRegistry(named.Name()) {
		found = candidates(ring, func(l located) bool { return l.at == dockerHub })
	}
	return found, nil
}

func candidates(ring []located, matches func(located) bool) []Credential {
	var found []Credential
	for _, l := range ring {
		if matches(l) {
			found = append(found, l.Credential)
		}
	}
	return found
}

// locate returns all that Secrets say, in the order in which it is tried. An entry that is
// no address applies nowhere.
func locate(secrets []*corev1.Secret) ([]located, error) {
	var ring []located
	for _, secret := range secrets {
		entries, err := entriesOf(secret)
		if err != nil {
			return nil, err
		}
		for _, registry := range slices.Sorted(maps.Keys(entries)) {
			e := entries[registry]
			if at, ok := location(registry); ok {
				ring = append(ring, located{at, Credential{
					Login:  Login{Username: e.Username, Password: e.Password},
					Source: Source{Namespace: secret.Namespace, Name: secret.Name, UID: secret.UID},
					Hash:   hashOf(e),
				}})
			}
		}
	}
	slices.SortStableFunc(ring, func(a, b located) int { return cmp.Compare(b.at, a.at) })
	return ring, nil
}

// location is where an entry applies. Docker writes addresses of APIs: /v1/ and /v2/ stand
// for the whole host.
func location(registry string) (string, bool) {
	if !strings.HasPrefix(registry, "https://") && !strings.HasPrefix(registry, "http://") {
		registry = "https://" + registry
	}
	address, err := url.Parse(registry)
	if err != nil {
		return "", false
	}
	below := address.Path
	if strings.HasPrefix(below, "/v1/") || strings.HasPrefix(below, "/v2/") {
		below = below[len("/v1"):]
	}
	if below == "/" {
		below = ""
	}
	return address.Host + below, true
}

// covers is whether a credential of a place is one for a repository: the same port, each
// label of the host by its pattern, and a path that begins with the place's.
func covers(at, repository string) bool {
	place, err := url.Parse("https://" + at)
	if err != nil {
		return false
	}
	target, err := url.Parse("https://" + repository)
	if err != nil || place.Port() != target.Port() || !strings.HasPrefix(target.Path, place.Path) {
		return false
	}
	patterns, labels := strings.Split(place.Hostname(), "."), strings.Split(target.Hostname(), ".")
	return slices.EqualFunc(patterns, labels, func(pattern, label string) bool {
		matched, err := path.Match(pattern, label)
		return matched && err == nil
	})
}

// ofDefaultRegistry is whether a repository is one of Docker Hub, where a host without a
// dot and a port counts as part of a name.
func ofDefaultRegistry(repository string) bool {
	host, _, _ := strings.Cut(repository, "/")
	return host == "docker.io" || host == dockerHub || !strings.ContainsAny(host, ".:")
}
