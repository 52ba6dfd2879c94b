// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"fmt"
	"net"
	"strconv"

	"github.com/spf13/pflag"
)

// Path is where the API server asks about ManagedWorkloads. Below it, it shows by the rest of the path that
// it is the API server.
const Path = "/validate-managedworkload"

// Options are the settings of the webhook.
type Options struct {
	// BindAddress is where the webhook is served; "0" or "" is off.
	BindAddress string
	// Name is that of the Service, of the Secret with the certificate and of the
	// ValidatingWebhookConfiguration.
	Name string
	// CertificateDir is where the certificate of the Secret is copied to.
	CertificateDir string
	// RotateCertificates makes and renews the certificate; if not, others write
	// the Secret and the configuration's caBundle.
	RotateCertificates bool
	// ClientCAFile has the authorities of the certificates that the API server shows; empty if it shows none.
	ClientCAFile string
	// ClientNames are the common names of those certificates; empty are all.
	ClientNames []string
}

// AddFlags binds the options to flags and sets their defaults.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.BindAddress, "webhook-bind-address", ":9443", `Address of the validating webhook; "0" turns it off`)
	fs.StringVar(&o.Name, "webhook-name", "managedworkload-webhook",
		"Name of the webhook's Service, of the Secret with its certificate and of its ValidatingWebhookConfiguration")
	fs.StringVar(&o.CertificateDir, "webhook-certificate-dir", "/run/managedworkload/webhook", "Folder that the webhook's certificate is copied to")
	fs.BoolVar(&o.RotateCertificates, "webhook-rotate-certificates", true,
		"Make and renew the webhook's certificate; if false, the Secret and the caBundle are left to others, such as cert-manager")
	fs.StringVar(&o.ClientCAFile, "webhook-client-ca-file", "",
		"File with the authority of the certificate that the API server shows to webhooks; all other connections are refused then. Empty: it shows none")
	fs.StringSliceVar(&o.ClientNames, "webhook-client-names", nil,
		"Common names of the certificate that the API server shows to webhooks; empty allows all of --webhook-client-ca-file")
}

// Enabled reports whether the webhook is served.
func (o *Options) Enabled() bool { return o.BindAddress != "" && o.BindAddress != "0" }

// Validate returns an error that names the flag whose value cannot work.
func (o *Options) Validate() error {
	if !o.Enabled() {
		return nil
	}
	if err := o.validateAddress(); err != nil {
		return fmt.Errorf("--webhook-bind-address %q: %w", o.BindAddress, err)
	}
	if o.Name == "" {
		return fmt.Errorf("--webhook-name must not be empty")
	}
	if o.CertificateDir == "" {
		return fmt.Errorf("--webhook-certificate-dir must not be empty")
	}
	if len(o.ClientNames) > 0 && o.ClientCAFile == "" {
		return fmt.Errorf("--webhook-client-names needs --webhook-client-ca-file")
	}
	return nil
}

func (o *Options) validateAddress() error {
	_, text, err := net.SplitHostPort(o.BindAddress)
	if err != nil {
		return err
	}
	if number, err := strconv.ParseUint(text, 10, 16); err != nil || number == 0 {
		return fmt.Errorf("%q is not a port from 1 to 65535", text)
	}
	return nil
}
