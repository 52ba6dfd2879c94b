// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// token is the claims of a service account token.
type token struct {
	Issuer   string   `json:"iss"`
	Audience []string `json:"aud"`
	Subject  string   `json:"sub"`
	Issued   int64    `json:"iat"`
	Expires  int64    `json:"exp"`
	Private  struct {
		Namespace         string
		Pod, Node, Secret *boundTo
		ServiceAccount    boundTo
		WarnAfter         int64
	} `json:"kubernetes.io"`
}

type boundTo struct{ Name, UID string }

// parseToken reads the claims of a token, and proves nothing about it.
func parseToken(data []byte) (token, bool) {
	var t token
	parts := strings.Split(string(data), ".")
	if len(parts) != 3 {
		return t, false
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(payload, &t) != nil {
		return t, false
	}
	return t, t.Subject != ""
}

// report writes down the claims, and nothing that could be used as a token.
func (t token) report(facts map[string]string, path string) {
	facts["audience of token "+path] = strings.Join(t.Audience, " ")
	facts["subject of token "+path] = t.Subject
	facts["issuer of token "+path] = t.Issuer
	facts["namespace of token "+path] = t.Private.Namespace
	facts["service account of token "+path] = t.Private.ServiceAccount.Name + " " + t.Private.ServiceAccount.UID
	for kind, bound := range map[string]*boundTo{"Pod": t.Private.Pod, "Node": t.Private.Node, "Secret": t.Private.Secret} {
		if bound != nil {
			facts[kind+" of token "+path] = bound.Name + " " + bound.UID
		}
	}
	// kube-apiserver may make a token last longer than it was asked for, and warns then.
	lifetime := t.Expires - t.Issued
	if t.Private.WarnAfter != 0 {
		facts["prolonged lifetime of token "+path] = fmt.Sprintf("%d s", lifetime)
		lifetime = t.Private.WarnAfter - t.Issued
	}
	facts["lifetime of token "+path] = fmt.Sprintf("%d s", lifetime)
}

// checkToken reads the claims of a service account token: its audience, its subject, and
// that it is valid at this time.
func checkToken(args []string) error {
	data, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	t, isToken := parseToken(data)
	if !isToken {
		return fmt.Errorf("%s holds no token", args[0])
	}
	left := time.Until(time.Unix(t.Expires, 0))
	if !slices.Contains(t.Audience, args[1]) || t.Subject != args[2] || left <= 0 {
		return fmt.Errorf("%s is for audience %q and subject %q and lasts %s, want audience %q and subject %q", args[0], t.Audience, t.Subject, left, args[1], args[2])
	}
	return nil
}
