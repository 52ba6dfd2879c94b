// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	subresources "github.com/managedworkload/managedworkload/api/subresources/v1alpha1"
)

// receivers are the watches by which all nodes get what containers need, each with a
// connection of its own to kube-apiserver, which forwards it to the manager.
type receivers struct {
	cfg      *rest.Config
	group    sync.WaitGroup
	received atomic.Int64 // bytes
	failed   atomic.Int64

	mu sync.Mutex
	// nodes counts those that have got an object in a version.
	nodes   map[version]int
	changed chan struct{}
}

// version is one of an object.
type version struct{ name, version string }

func newReceivers(cfg *rest.Config) *receivers {
	return &receivers{cfg: cfg, nodes: map[version]int{}, changed: make(chan struct{})}
}

// start opens the watch of a node, again whenever it ends, until ctx is done.
func (r *receivers) start(ctx context.Context, node string, uid types.UID) {
	ctx = asBound(ctx, node, uid)
	r.group.Go(func() {
		have := map[version]bool{}
		for ctx.Err() == nil {
			if err := r.watch(ctx, node, have); err != nil && ctx.Err() == nil && r.failed.Add(1) == 1 {
				progress("A watch of objects ended and is opened again: %v", err)
			}
			_ = pause(ctx, time.Second)
		}
	})
}

// watch reads a node's objects until the watch ends.
func (r *receivers) watch(ctx context.Context, node string, have map[version]bool) error {
	cfg := rest.CopyConfig(r.cfg)
	cfg.Dial = (&net.Dialer{Timeout: 10 * time.Second}).DialContext // no connection is shared with other nodes
	c, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return err
	}
	defer c.CloseIdleConnections()
	query := url.Values{"watch": {"true"}, "allowWatchBookmarks": {"true"}, "fieldSelector": {"metadata.name=" + node}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, cfg.Host+"/apis/"+subresources.GroupVersion.String()+"/nodeobjects?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	response, err := c.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // only read
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10))
		return fmt.Errorf("watch nodeobjects: %s: %s", response.Status, text)
	}
	return r.read(response.Body, have)
}

// event has the head of an event about an object that is there: its data is last.
var event = regexp.MustCompile(`^\{"type":"(?:ADDED|MODIFIED)".*"objectName":"([^"]+)".*"objectVersion":"([^"]+)","state":"Present"`)

// read notes the objects of a watch. It looks at the head of each event only: decoding the
// rest would take the CPU that kube-apiserver and the manager need.
func (r *receivers) read(body io.Reader, have map[version]bool) error {
	reader := bufio.NewReaderSize(body, 8<<10)
	for {
		head, err := r.line(reader)
		if err != nil {
			return err
		}
		found := event.FindSubmatch(head)
		if found == nil {
			continue
		}
		if v := (version{string(found[1]), string(found[2])}); !have[v] {
			have[v] = true
			r.note(v)
		}
	}
}

// line reads an event, and returns its head.
func (r *receivers) line(reader *bufio.Reader) (head []byte, err error) {
	for first := true; ; first = false {
		part, err := reader.ReadSlice('\n')
		r.received.Add(int64(len(part)))
		if first {
			head = append(head, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return head, err
		}
	}
}

func (r *receivers) note(v version) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nodes[v]++
	close(r.changed)
	r.changed = make(chan struct{})
}

// await waits until so many nodes have got each of the objects.
func (r *receivers) await(ctx context.Context, nodes int, objects []version) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	for {
		r.mu.Lock()
		least, changed := nodes, r.changed
		for _, v := range objects {
			least = min(least, r.nodes[v])
		}
		r.mu.Unlock()
		if least >= nodes {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d nodes have the objects: %w", least, nodes, ctx.Err())
		case <-changed:
		}
	}
}
