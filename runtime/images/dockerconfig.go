// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// entry is what a Secret says of one registry. auth has precedence.
type entry struct {
	Username string `json:"username"`
	Password string `json:"password"`
	Email    string `json:"email"`
	Auth     string `json:"auth"`
}

var errDockerConfig = errors.New("it is no valid configuration of registries")

// entriesOf returns what a pull secret says, by registry; nothing for a Secret of another
// type. No error shows any of its content.
func entriesOf(secret *corev1.Secret) (map[string]entry, error) {
	var key string
	var entries map[string]entry
	var err error
	switch secret.Type {
	case corev1.SecretTypeDockerConfigJson:
		key = corev1.DockerConfigJsonKey
		var config struct {
			Auths map[string]entry `json:"auths"`
		}
		err = decode(secret.Data[key], &config)
		entries = config.Auths
	case corev1.SecretTypeDockercfg:
		key = corev1.DockerConfigKey
		err = decode(secret.Data[key], &entries)
	default:
		return nil, nil
	}
	for registry, e := range entries {
		if err == nil && e.Auth != "" {
			e.Username, e.Password, err = splitAuth(e.Auth)
			entries[registry] = e
		}
	}
	if err != nil {
		return nil, fmt.Errorf("secret %q cannot be used to pull images: key %s: %w", secret.Name, key, errDockerConfig)
	}
	return entries, nil
}

func decode(data []byte, into any) error {
	if len(data) == 0 {
		return nil
	}
	return json.Unmarshal(data, into)
}

// splitAuth reads base64(username:password), with or without padding.
func splitAuth(auth string) (username, password string, err error) {
	encoding := base64.RawStdEncoding
	if strings.HasSuffix(strings.TrimSpace(auth), "=") {
		encoding = base64.StdEncoding
	}
	plain, err := encoding.DecodeString(auth)
	if err != nil {
		return "", "", err
	}
	username, password, found := strings.Cut(string(plain), ":")
	if !found {
		return "", "", errDockerConfig
	}
	return username, password, nil
}
