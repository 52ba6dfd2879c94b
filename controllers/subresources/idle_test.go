// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package subresources

import (
	"bufio"
	"context"
	"crypto/x509"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// A watch that has nothing to send for longer than a chunk may take lives, also before its first
// event: in HTTP/2 a deadline that is left behind resets it.
func TestIdleWatchLives(t *testing.T) {
	const timeout = 200 * time.Millisecond
	proxies := newAuthority(t)
	proxy := &frontProxy{reader: fake.NewClientBuilder().WithObjects(trustOf(proxies)).Build(), log: logr.Discard()}
	proxy.read(t.Context())
	c := newCluster()
	h := c.handler()
	h.chunkTimeout = timeout
	server := tlsServer(t, h, proxy)
	caller := connect(t, server, proxies.client(t, "front-proxy", x509.ExtKeyUsageClientAuth))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+watchPath("a"), nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := caller.Do(as(req, shim, "a", "uid-a"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close() //nolint:errcheck // read only
	if res.ProtoMajor != 2 {
		t.Fatalf("a test of %s", res.Proto)
	}
	reader := bufio.NewReader(res.Body)
	for _, data := range []string{"1", strings.Repeat("x", 3*chunk)} {
		time.Sleep(2 * timeout)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // a watch that was reset takes nothing
		c.events.send(ctx, watch.Added, object("one", data))
		cancel()
		if n := lineLength(t, reader); n < len(data) {
			t.Errorf("an event of %d bytes", n)
		}
	}
}
