// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// Claims are what a service account token says of itself. They are not checked: the
// API server does that with each request. (KEP-4193 for node)
type Claims struct {
	Subject string `json:"sub"`
	// IssuedAt and Expires are in seconds since 1970.
	IssuedAt   int64 `json:"iat"`
	Expires    int64 `json:"exp"`
	Kubernetes struct {
		Namespace      string        `json:"namespace"`
		ServiceAccount ClaimedObject `json:"serviceaccount"`
		Node           ClaimedObject `json:"node"`
		Pod            ClaimedObject `json:"pod"`
	} `json:"kubernetes.io"`
}

// ClaimedObject is an object that a token names.
type ClaimedObject struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
}

// ParseClaims reads the claims of a token. The error says what of its form is wrong, and nothing of
// its content.
func ParseClaims(token string) (Claims, error) {
	parts := strings.Split(strings.TrimSpace(token), ".")
	if len(parts) != 3 {
		return Claims{}, errors.New("the token is no service account token: it does not have three parts")
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return Claims{}, fmt.Errorf("decode the token: %w", err)
	}
	var c Claims
	if err := json.Unmarshal(payload, &c); err != nil {
		return Claims{}, errors.New("decode the token: its claims are no JSON object")
	}
	return c, nil
}

// IsAccountGone reports whether the API server says, of a request for a token, that there is no such
// service account: it may also be the Node that does not exist.
func IsAccountGone(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && apierrors.IsNotFound(err) && status.Status().Details != nil && status.Status().Details.Kind == "serviceaccounts"
}
