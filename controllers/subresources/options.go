// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package subresources

import (
	"fmt"
	"net"
	"strconv"

	"github.com/spf13/pflag"
)

// Options are the settings of the aggregated API.
type Options struct {
	// BindAddress is where it is served; "0" or "" is off.
	BindAddress string
	// Name is that of the Service and of the Secret with the certificate.
	Name string
	// CertificateDir is where the certificate of the Secret is copied to.
	CertificateDir string
	// RotateCertificates makes and renews the certificate; if not, others write the
	// Secret and the caBundle of the APIService.
	RotateCertificates bool
}

// AddFlags binds the options to flags and sets their defaults.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.BindAddress, "subresources-bind-address", "",
		"Address of the aggregated API through which shims get ConfigMaps, Secrets and tokens, such as :9444; empty turns it off")
	fs.StringVar(&o.Name, "subresources-name", "managedworkload-subresources",
		"Name of the aggregated API's Service and of the Secret with its certificate")
	fs.StringVar(&o.CertificateDir, "subresources-certificate-dir", "/run/managedworkload/subresources", "Folder that the aggregated API's certificate is copied to")
	fs.BoolVar(&o.RotateCertificates, "subresources-rotate-certificates", true,
		"Make and renew the aggregated API's certificate; if false, the Secret and the caBundle of the APIService are left to others, such as cert-manager")
}

// Enabled reports whether the aggregated API is served.
func (o *Options) Enabled() bool { return o.BindAddress != "" && o.BindAddress != "0" }

// Validate returns an error that names the flag whose value cannot work.
func (o *Options) Validate() error {
	if !o.Enabled() {
		return nil
	}
	_, port, err := net.SplitHostPort(o.BindAddress)
	if err != nil {
		return fmt.Errorf("--subresources-bind-address %q: %w", o.BindAddress, err)
	}
	if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
		return fmt.Errorf("--subresources-bind-address %q: %q is not a port from 1 to 65535", o.BindAddress, port)
	}
	if o.Name == "" {
		return fmt.Errorf("--subresources-name must not be empty")
	}
	if o.CertificateDir == "" {
		return fmt.Errorf("--subresources-certificate-dir must not be empty")
	}
	return nil
}
