// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package subresources

import (
	"bufio"
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/managedworkload/managedworkload/api/subresources/v1alpha1"
)

// A watch that has carried objects of 1 MiB keeps no megabytes, on either side of the connection.
func TestWatchesKeepNoBuffers(t *testing.T) {
	const watches, size, most = 40, 1 << 20, 128 << 10
	proxies := newAuthority(t)
	proxy := &frontProxy{reader: fake.NewClientBuilder().WithObjects(trustOf(proxies)).Build(), log: logr.Discard()}
	proxy.read(t.Context())
	h := newCluster().handler()
	h.objects = once{object("large", strings.Repeat("x", size))}
	server := tlsServer(t, h, proxy)
	caller := connect(t, server, proxies.client(t, "front-proxy", x509.ExtKeyUsageClientAuth))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	before := heap()
	for range watches {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+watchPath("a"), nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := caller.Do(as(req, shim, "a", "uid-a"))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close() //nolint:errcheck // read only
		reader := bufio.NewReaderSize(res.Body, 1<<10)
		if n := lineLength(t, reader); n < size {
			t.Fatalf("an event of %d bytes", n)
		}
	}
	if kept := (heap() - before) / watches; kept > most {
		t.Errorf("each watch keeps %d KiB", kept>>10)
	} else {
		t.Logf("each watch keeps %d KiB", kept>>10)
	}
}

// once has one object for every watch.
type once struct{ object *v1alpha1.NodeObject }

func (o once) Watch(context.Context, string) (watch.Interface, error) {
	events := make(feed, 1)
	events <- watch.Event{Type: watch.Added, Object: o.object}
	return events, nil
}

// lineLength reads a line without keeping it.
func lineLength(t *testing.T, reader *bufio.Reader) (n int) {
	t.Helper()
	for {
		part, err := reader.ReadSlice('\n')
		n += len(part)
		if err == nil {
			return n
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			t.Fatal(err)
		}
	}
}

// heap is what is in use.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
