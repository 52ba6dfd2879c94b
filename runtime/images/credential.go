// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"k8s.io/apimachinery/pkg/types"
)

// Login is what a pull presents to the registry.
type Login struct{ Username, Password string }

// String keeps a login out of logs and messages.
func (Login) String() string { return "(login)" }

// GoString does the same for %#v.
func (Login) GoString() string { return "images.Login{}" }

// Source is the Secret that a credential is from.
type Source struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid,omitempty"`
}

// Credential is one candidate for a pull.
type Credential struct {
	Login
	Source
	// Hash stands for the login in records.
	Hash string
	// unread says that the Secret has not been received: only its name is known.
	unread bool
}

// hashOf returns the hash by which the kubelet knows a login. (kubelet
// credentialprovider/keyring.go:hashAuthConfig)
func hashOf(e entry) string {
	data, err := json.Marshal(struct { //nolint:gosec // only its hash leaves this function
		Username string `json:"username,omitempty"`
		Password string `json:"password,omitempty"`
		Email    string `json:"email,omitempty"`
	}{e.Username, e.Password, e.Email})
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
