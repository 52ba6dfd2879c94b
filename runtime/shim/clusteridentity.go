// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/runtime/statefile"
)

const (
	// clusterFile in the state directory remembers the cluster, for a start without
	// an API server.
	clusterFile = "cluster"
	// clusterTimeout is short: the overseer does nothing else meanwhile.
	clusterTimeout = 3 * time.Second
	// clusterRetry is the time between two questions while a remembered identity is
	// in use, and between two tries to write one.
	clusterRetry = 10 * time.Second
	// maxClusterID bounds an identity: a UID has 36 characters.
	maxClusterID = 128
)

// errTornCluster says that the file holds no identity: it was cut, or is not ours.
var errTornCluster = errors.New("the file is damaged")

// clusterIdentity knows which cluster this is: the UID of its namespace kube-system.
// New sandboxes are labelled with it. What was remembered labels and compares only;
// before anything is killed because the cluster lacks it, the cluster is asked.
type clusterIdentity struct {
	reader client.Reader
	path   string
	// use is called with an identity before current returns it.
	use func(id string)
	// alone: there is no cluster.
	alone bool
	// pending is the identity that is to be written.
	pending chan string

	mu sync.Mutex
	id string

	// What follows belongs to the caller of know.
	recalled, confirmed bool
	asked               time.Time
	lastError           string
}

func newClusterIdentity(reader client.Reader, stateDir string) *clusterIdentity {
	return &clusterIdentity{
		reader: reader, path: filepath.Join(stateDir, clusterFile), use: func(string) {}, pending: make(chan string, 1),
	}
}

// current is the identity that new pods get, "" while it is not known.
func (c *clusterIdentity) current() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.id
}

func (c *clusterIdentity) set(id string) {
	c.use(id)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.id = id
}

// know returns whether new sandboxes can be labelled with the cluster. It asks the
// API server until that has answered once, and goes by what was remembered until
// then.
func (c *clusterIdentity) know(ctx context.Context) bool {
	if c.alone {
		return true
	}
	before := c.current()
	if c.confirmed || before != "" && time.Since(c.asked) < clusterRetry {
		return true
	}
	log := logr.FromContextOrDiscard(ctx)
	id, err := c.ask(ctx)
	c.asked = time.Now()
	if !c.recalled {
		if before = c.recall(log); before != "" {
			c.set(before)
		}
		c.recalled = true
	}
	if err != nil {
		if before == "" && err.Error() != c.lastError && ctx.Err() == nil {
			log.Info("The cluster is not known yet, nothing is started or killed; retrying", "reason", err.Error())
		}
		c.lastError = err.Error()
		return before != ""
	}
	c.confirmed = true
	if id == before {
		return true
	}
	if before != "" {
		log.Info("The API server belongs to another cluster than before; containers from the former one are kept", "before", before, "now", id)
	}
	c.set(id)
	c.pending <- id
	return true
}

// recall is the remembered identity, "" if there is none that can be trusted.
func (c *clusterIdentity) recall(log logr.Logger) string {
	id, err := c.remembered()
	if err != nil {
		log.Error(err, "Failed to read the remembered identity of the cluster; the API server's is used")
	}
	return id
}

// remembered is the cluster of the last start, "" if there was none.
func (c *clusterIdentity) remembered() (string, error) {
	data, err := os.ReadFile(c.path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the cluster's identity: %w", err)
	}
	id, whole := strings.CutSuffix(string(data), "\n")
	if !whole || !isClusterID(id) {
		return "", fmt.Errorf("read the cluster's identity from %s: %w", c.path, errTornCluster)
	}
	return id, nil
}

// isClusterID reports whether id can be an identity, and not what a crash or a
// damaged disk leaves.
func isClusterID(id string) bool {
	return id != "" && len(id) <= maxClusterID && !strings.ContainsFunc(id, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-'
	})
}

// ask reads the identity from the API server.
func (c *clusterIdentity) ask(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	ns := &corev1.Namespace{}
	if err := c.reader.Get(ctx, client.ObjectKey{Name: "kube-system"}, ns); err != nil {
		return "", fmt.Errorf("read the cluster's identity: %w", err)
	}
	return string(ns.UID), nil
}

// remember keeps the identity for the next start.
func (c *clusterIdentity) remember(id string) error {
	if err := statefile.Replace(c.path, []byte(id+"\n")); err != nil {
		return fmt.Errorf("keep the cluster's identity: %w", err)
	}
	return nil
}

// keep writes the identity when it has changed, until the context is done. The
// overseer does not wait for the disk.
func (c *clusterIdentity) keep(ctx context.Context) error {
	log := logr.FromContextOrDiscard(ctx)
	for {
		select {
		case <-ctx.Done():
			return nil
		case id := <-c.pending:
			for said := false; ; said = true {
				err := c.remember(id)
				if err == nil {
					break
				}
				if !said {
					log.Error(err, "Failed to write the cluster's identity; retrying")
				}
				if !sleep(ctx, clusterRetry) {
					return nil
				}
			}
		}
	}
}
