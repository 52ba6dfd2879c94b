// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package localstack

import "fmt"

// webhookFolder is what makes kube-apiserver ask the manager, beside config/default.
const webhookFolder = "../webhook"

// WebhookPatches are patches of a kustomization by which kube-apiserver finds the manager's
// webhook on this machine: nothing routes a Service's address here. kube-apiserver takes
// no endpoints on the loopback, but resolves an ExternalName.
func (s *Stack) WebhookPatches() (Patches, error) {
	if s.webhookPort == 0 {
		ports, err := freePorts(1)
		if err != nil {
			return nil, err
		}
		s.webhookPort = ports[0]
	}
	return Patches{
		externalName("managedworkload-webhook"),
		{PatchTarget{"ValidatingWebhookConfiguration", "managedworkload-webhook"},
			fmt.Sprintf("- {op: replace, path: /webhooks/0/clientConfig/service/port, value: %d}", s.webhookPort)},
	}, nil
}

// externalName has kube-apiserver look for a Service on this machine.
func externalName(service string) Patch {
	return Patch{PatchTarget{"Service", service}, "- {op: replace, path: /spec, value: {type: ExternalName, externalName: localhost}}"}
}

// WebhookAddress is where kube-apiserver looks for the manager's webhook.
func (s *Stack) WebhookAddress() string { return loopback(s.webhookPort) }

// webhookArgs are the manager's flags about its webhook.
func (s *Stack) webhookArgs() []string {
	address := "0"
	if s.opts.WithWebhook {
		address = s.WebhookAddress()
	}
	return []string{"--webhook-bind-address=" + address, "--webhook-certificate-dir=" + s.layout.path("webhook")}
}

// objectsComponent is what containers get ConfigMaps, Secrets and tokens by, beside
// config/default.
const objectsComponent = "../components/objects"

// ObjectsPatches are those by which kube-apiserver finds the manager's aggregated API on
// this machine, as it finds the webhook.
func (s *Stack) ObjectsPatches() (Patches, error) {
	if s.objectsPort == 0 {
		ports, err := freePorts(1)
		if err != nil {
			return nil, err
		}
		s.objectsPort = ports[0]
	}
	return Patches{
		externalName("managedworkload-subresources"),
		{PatchTarget{Kind: "APIService"}, fmt.Sprintf("- {op: replace, path: /spec/service/port, value: %d}", s.objectsPort)},
	}, nil
}

// objectsArgs are the manager's flags about its aggregated API.
func (s *Stack) objectsArgs() []string {
	return []string{"--subresources-bind-address=" + loopback(s.objectsPort), "--subresources-certificate-dir=" + s.layout.path("subresources")}
}
