// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
)

// A private image is pulled with the Secret that the template names in imagePullSecrets, and not
// without it.
func testPrivateImage(t *testing.T) {
	password := hidden + "-pull"
	image := env.PrivateImage(t, "ann", password)
	w := onFirst(t)
	w.AllowObjects()
	template := first() + "%scontainers: [{name: c, image: " + image + ", imagePullPolicy: IfNotPresent}]"
	w.Apply(fmt.Sprintf(template, ""))
	w.AwaitEvent("Failed", "Failed to pull image")
	host, _, _ := strings.Cut(image, "/")
	config := fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, host, base64.StdEncoding.EncodeToString([]byte("ann:"+password)))
	w.KubectlApply(fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: login}\ntype: kubernetes.io/dockerconfigjson\nstringData: {.dockerconfigjson: %q}\n", config))
	w.Apply(fmt.Sprintf(template, "imagePullSecrets: [{name: login}]\n"))
	w.AwaitReady()
}
