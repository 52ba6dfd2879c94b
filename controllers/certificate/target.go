// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"fmt"

	"github.com/go-logr/logr"
	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Target is a server and what needs its CA.
type Target struct {
	// What names the server in the log, such as "webhook".
	What string
	// Secret has the certificate; the Service of the same name leads to the server.
	Secret types.NamespacedName
	// Dir is where the certificate is copied to.
	Dir string
	// Trust is the object with the field caBundle.
	Trust Trust
	// Without says what it means that there is no certificate.
	Without string
	Log     logr.Logger
}

// Trust is an object by which the API server recognises a server.
type Trust struct {
	Kind TrustKind
	Name string
}

// TrustKind is a kind of object with a field caBundle.
type TrustKind int

const (
	// ValidatingWebhookConfiguration is that of a webhook.
	ValidatingWebhookConfiguration TrustKind = iota
	// APIService is that of an aggregated API.
	APIService
)

var trustKinds = map[TrustKind]struct {
	rotated rotator.WebhookType
	list    schema.GroupVersionKind
	plural  string
}{
	ValidatingWebhookConfiguration: {
		rotator.Validating,
		schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfigurationList"},
		"validatingwebhookconfigurations",
	},
	APIService: {
		rotator.APIService,
		schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIServiceList"},
		"apiservices",
	},
}

// String is how messages name it.
func (t Trust) String() string {
	kind := "ValidatingWebhookConfiguration"
	if t.Kind == APIService {
		kind = "APIService"
	}
	return kind + " " + t.Name
}

// dnsName is the name that the API server expects.
func (t *Target) dnsName() string { return fmt.Sprintf("%s.%s.svc", t.Secret.Name, t.Secret.Namespace) }
