// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// Etcd makes copies of etcd's folder and puts them back.
type Etcd struct {
	Service, APIServer *Service
	// Data is etcd's folder, Copies where copies are kept.
	Data, Copies string
}

// Backup copies the folder at one moment, as after a crash of etcd. It returns the
// copy and the time.
func (e *Etcd) Backup(ctx context.Context) (copied string, at time.Time, err error) {
	e.Service.mu.Lock()
	defer e.Service.mu.Unlock()
	if err := e.Service.Signal(syscall.SIGSTOP); err != nil {
		return "", at, err
	}
	defer func() { err = errors.Join(err, e.Service.Signal(syscall.SIGCONT)) }()
	at = time.Now()
	copied = filepath.Join(e.Copies, strconv.FormatInt(at.UnixNano(), 10))
	return copied, at, copyFolder(ctx, e.Data, copied)
}

// Restore puts a copy back, as etcdutl's snapshot restore does with --bump-revision
// and --mark-compacted: revisions continue above those that clients have seen, and
// watches of before have to list again. The API server is away meanwhile. It returns
// the values that the copy has of keys with a prefix.
func (e *Etcd) Restore(ctx context.Context, copied, prefix string) (values [][]byte, err error) {
	err = e.APIServer.whileDown(ctx, func() error {
		before, err := e.revision(ctx)
		if err != nil {
			return err
		}
		err = e.Service.whileDown(ctx, func() error {
			return errors.Join(os.RemoveAll(e.Data), copyFolder(ctx, copied, e.Data))
		})
		if err != nil {
			return err
		}
		if err := e.Service.AwaitReady(ctx); err != nil {
			return err
		}
		if values, err = e.list(ctx, prefix); err != nil {
			return err
		}
		return e.raiseRevision(ctx, before+1)
	})
	if err != nil {
		return nil, fmt.Errorf("restore etcd: %w", err)
	}
	return values, e.APIServer.AwaitReady(ctx)
}

func copyFolder(ctx context.Context, from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	output, err := exec.CommandContext(ctx, "cp", "-a", "--", from, to).CombinedOutput()
	if err != nil {
		return fmt.Errorf("copy %s: %w: %s", from, err, output)
	}
	return nil
}

func (e *Etcd) url() string {
	for _, arg := range e.Service.Args() {
		if url, found := strings.CutPrefix(arg, "--listen-client-urls="); found {
			return url
		}
	}
	return ""
}

// answer is what etcd's JSON gateway says: with everything the store's revision.
type answer struct {
	Header struct {
		Revision int64 `json:"revision,string"`
	} `json:"header"`
	KVs []stored `json:"kvs"`
}

// call asks etcd's JSON gateway.
func (e *Etcd) call(ctx context.Context, path string, request map[string]any) (a answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	body, err := json.Marshal(request)
	if err != nil {
		return a, err
	}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url()+path, bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	response, err := http.DefaultClient.Do(post)
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return a, err
	}
	if response.StatusCode != http.StatusOK {
		return a, fmt.Errorf("etcd %s: %s %s", path, response.Status, text)
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return a, fmt.Errorf("etcd %s: %w", path, err)
	}
	return a, nil
}

func (e *Etcd) revision(ctx context.Context) (int64, error) {
	a, err := e.call(ctx, "/v3/kv/range", map[string]any{"key": encoded("revision")})
	return a.Header.Revision, err
}

// list returns the values of the keys with a prefix.
func (e *Etcd) list(ctx context.Context, prefix string) (values [][]byte, err error) {
	a, err := e.call(ctx, "/v3/kv/range", map[string]any{"key": []byte(prefix), "range_end": prefixEnd(prefix)})
	for _, kv := range a.KVs {
		values = append(values, kv.Value)
	}
	return values, err
}

// prefixEnd is the first key after those with a prefix.
func prefixEnd(prefix string) []byte {
	end := []byte(prefix)
	end[len(end)-1]++
	return end
}

// writers are how many revisions are written at once.
const writers = 16

// raiseRevision writes until the revision is reached, and compacts there.
func (e *Etcd) raiseRevision(ctx context.Context, wanted int64) error {
	now, err := e.revision(ctx)
	if err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(writers)
	for range max(wanted-now, 0) {
		group.Go(func() error {
			_, err := e.call(ctx, "/v3/kv/put", map[string]any{"key": encoded("revision"), "value": encoded("raised")})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if now, err = e.revision(ctx); err != nil {
		return err
	}
	_, err = e.call(ctx, "/v3/kv/compaction", map[string]any{"revision": strconv.FormatInt(now, 10), "physical": false})
	return err
}

func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
