// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package subresources

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	x509request "k8s.io/apiserver/pkg/authentication/request/x509"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// trustName is the ConfigMap in which every kube-apiserver says how its front proxy is
// recognised, trustInterval how often it is read, and trustTimeout how long that may take.
const (
	trustName     = "extension-apiserver-authentication"
	trustInterval = 10 * time.Second
	trustTimeout  = 5 * time.Second
)

// frontProxy recognises the API server as the front proxy, and reads in whose name it asks.
// It reads the ConfigMap instead of watching it, as the certificate's Secret is read.
type frontProxy struct {
	reader client.Reader
	log    logr.Logger

	// trusted is what recognises it; nil where no front proxy is known.
	trusted atomic.Pointer[authenticator.Request]
	data    map[string]string
	problem string
}

// AuthenticateRequest implements authenticator.Request: without the front proxy's certificate there
// is no user, whatever the headers say.
func (f *frontProxy) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	trusted := f.trusted.Load()
	if trusted == nil {
		return nil, false, nil
	}
	return (*trusted).AuthenticateRequest(req)
}

// keep follows the ConfigMap until ctx is done.
func (f *frontProxy) keep(ctx context.Context) {
	for pause(ctx, trustInterval) {
		f.read(ctx)
	}
}

// read reads the ConfigMap. A problem is logged once. What was trusted stays where the API
// server does not answer, and ends where it says that there is no front proxy.
func (f *frontProxy) read(ctx context.Context) {
	problem := ""
	config := &corev1.ConfigMap{}
	reading, cancel := context.WithTimeout(ctx, trustTimeout)
	defer cancel()
	err := f.reader.Get(reading, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: trustName}, config)
	if err == nil && !maps.Equal(config.Data, f.data) {
		f.data = config.Data
		var trusted authenticator.Request
		if trusted, err = trust(config.Data); err == nil {
			f.trusted.Store(&trusted)
		} else {
			f.trusted.Store(nil)
			f.data = nil
		}
	}
	if apierrors.IsNotFound(err) {
		f.trusted.Store(nil)
		f.data = nil
	}
	if err != nil {
		problem = err.Error()
	}
	if problem != "" && problem != f.problem && ctx.Err() == nil {
		f.log.Info("Failed to read how the API server is recognised; the aggregated API refuses whom it does not know", "reason", problem)
	}
	f.problem = problem
}

// trust recognises the front proxy that the ConfigMap describes.
func trust(data map[string]string) (authenticator.Request, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(data["requestheader-client-ca-file"])) {
		return nil, errors.New("kube-apiserver has no --requestheader-client-ca-file: the aggregation layer is not configured")
	}
	lists := map[string]headerrequest.StaticStringSlice{}
	for _, key := range []string{"allowed-names", "username-headers", "uid-headers", "group-headers", "extra-headers-prefix"} {
		var values []string
		if text := data["requestheader-"+key]; text != "" {
			if err := json.Unmarshal([]byte(text), &values); err != nil {
				return nil, fmt.Errorf("read requestheader-%s: %w", key, err)
			}
		}
		lists[key] = values
	}
	if len(lists["username-headers"]) == 0 {
		return nil, errors.New("kube-apiserver has no --requestheader-username-headers")
	}
	options := x509request.DefaultVerifyOptions()
	options.Roots = roots
	return headerrequest.NewDynamicVerifyOptionsSecure(x509request.StaticVerifierFn(options),
		lists["allowed-names"], lists["username-headers"], lists["uid-headers"], lists["group-headers"], lists["extra-headers-prefix"]), nil
}

// pause waits, and reports whether ctx lasted so long.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
