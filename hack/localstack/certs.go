// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package localstack

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// identity is that of a client of kube-apiserver. The manager is impersonated, with the
// very name and groups its service account's token would give it, so that config/'s
// RBAC applies to it. A shim has a token.
type identity struct {
	name      string
	as        string
	asGroups  []string
	tokenFile string
}

var (
	admin   = identity{name: "admin"}
	manager = identity{
		name:     "manager",
		as:       "system:serviceaccount:" + SystemNamespace + ":managedworkload-manager",
		asGroups: []string{"system:serviceaccounts", "system:serviceaccounts:" + SystemNamespace, "system:authenticated"},
	}
)

// authority signs the certificates of one stack.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

const certificateLifetime = 365 * 24 * time.Hour

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := newTemplate(pkix.Name{CommonName: "localstack"})
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &authority{key: key, cert: cert}, err
}

func newTemplate(subject pkix.Name) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      subject,
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(certificateLifetime),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
}

func (a *authority) certPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// issue returns a certificate for a server on the loopback interface and at these
// addresses, or for a client when it has a group.
func (a *authority) issue(subject pkix.Name, addresses ...net.IP) (cert, key []byte, err error) {
	template := newTemplate(subject)
	if len(subject.Organization) > 0 {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	} else {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		template.IPAddresses = append(addresses, net.IPv4(127, 0, 0, 1))
		template.DNSNames = []string{"localhost"}
	}
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, own.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := x509.MarshalECPrivateKey(own)
	if err != nil {
		return nil, nil, err
	}
	cert = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	key = pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
	return cert, key, nil
}

// writePKI writes kube-apiserver's files and everybody's kubeconfig.
func (s *Stack) writePKI(server string, address net.IP) error {
	ca, err := newAuthority()
	if err != nil {
		return err
	}
	if err := s.writeFrontProxy(); err != nil {
		return err
	}
	serverCert, serverKey, err := ca.issue(pkix.Name{CommonName: "kube-apiserver"}, address)
	if err != nil {
		return err
	}
	// Tokens are signed with a key of their own.
	_, tokenKey, err := ca.issue(pkix.Name{CommonName: "tokens"})
	if err != nil {
		return err
	}
	clientCert, clientKey, err := ca.issue(pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}})
	if err != nil {
		return err
	}
	for file, data := range map[string][]byte{
		"ca.crt": ca.certPEM(), "server.crt": serverCert, "server.key": serverKey, "tokens.key": tokenKey,
		"client.crt": clientCert, "client.key": clientKey,
	} {
		if err := os.WriteFile(s.layout.pki(file), data, 0o600); err != nil {
			return err
		}
	}
	identities := []identity{admin, manager, controllerManager, scheduler}
	for _, n := range s.Nodes {
		identities = append(identities, n.shimIdentity())
	}
	for _, who := range identities {
		config := kubeconfigFor(who, server, ca.certPEM(), clientCert, clientKey)
		if err := clientcmd.WriteToFile(*config, s.layout.kubeconfig(who)); err != nil {
			return err
		}
	}
	return nil
}

func kubeconfigFor(who identity, server string, ca, cert, key []byte) *clientcmdapi.Config {
	user := clientcmdapi.NewAuthInfo()
	if who.tokenFile != "" {
		user.TokenFile = who.tokenFile
	} else {
		user.ClientCertificateData, user.ClientKeyData = cert, key
		user.Impersonate, user.ImpersonateGroups = who.as, who.asGroups
	}
	cluster := clientcmdapi.NewCluster()
	cluster.Server, cluster.CertificateAuthorityData = server, ca
	context := clientcmdapi.NewContext()
	context.Cluster, context.AuthInfo = "localstack", who.name
	config := clientcmdapi.NewConfig()
	config.Clusters["localstack"] = cluster
	config.AuthInfos[who.name] = user
	config.Contexts["localstack"] = context
	config.CurrentContext = "localstack"
	return config
}
