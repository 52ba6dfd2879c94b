// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package images

// maxNoted is how many Secrets of a record may come from decisions: namespaces may come
// and go, and no record grows without bounds.
const maxNoted = 100

// facts are what is known of an image that the runtime has.
type facts struct {
	// pulled is the record of a pull by this shim, nil without one.
	pulled *record
	// preloaded: the image was there by this name, or this is its ID, before this shim pulled it.
	preloaded bool
	// doubtful: without a record, it is not known that this shim has not pulled it.
	doubtful bool
}

// verdict is whether a pod may use an image that the runtime has.
type verdict struct {
	mustPull bool
	// note is a credential that the record should have too.
	note *Credential
}

// decide is the one place that says whether a pod may use an image that is present. It
// asks for the pod's credentials only where they matter.
// (kubelet pullmanager/image_pull_manager.go:MustAttemptImagePull)
func decide(f facts, name string, credentials func() ([]Credential, error)) (verdict, error) {
	if f.preloaded {
		return verdict{}, nil
	}
	if f.pulled == nil {
		return verdict{mustPull: f.doubtful}, nil // else this shim has not pulled it: it is for every pod
	}
	by := f.pulled.Names[name]
	if by.Everyone {
		return verdict{}, nil
	}
	if len(by.Secrets) == 0 {
		return verdict{mustPull: true}, nil
	}
	own, err := credentials()
	if err != nil {
		return verdict{mustPull: true}, err
	}
	for i := range own {
		for _, g := range by.Secrets {
			if granted, isNew := g.admits(&own[i], len(by.Secrets) < maxNoted); granted {
				return noting(&own[i], isNew), nil
			}
		}
	}
	return verdict{mustPull: true}, nil
}

func noting(c *Credential, isNew bool) verdict {
	if !isNew {
		return verdict{}
	}
	return verdict{note: c}
}

// admits is whether a credential is the one that has pulled the image: the same login, or
// the same Secret whose content has changed, as long as there is room to note that. Of a
// Secret that has not been received its name is enough: what it holds may be as before.
func (g grant) admits(c *Credential, room bool) (granted, isNew bool) {
	if c.unread {
		return g.Namespace == c.Namespace && g.Name == c.Name, false
	}
	sameLogin, sameSecret := g.Hash != "" && g.Hash == c.Hash, g.Source == c.Source
	switch {
	case sameLogin:
		return true, !sameSecret && room
	case sameSecret:
		return room, room
	}
	return false, false
}
