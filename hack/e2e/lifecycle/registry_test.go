// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/managedworkload/managedworkload/hack/localstack"
)

// serveImage is a registry with the image of the test program, under any name.
func serveImage(t *testing.T) *httptest.Server {
	t.Helper()
	archive := filepath.Join(t.TempDir(), "images.tar")
	if err := localstack.WriteImages(filepath.Join(env.Stack.StateDir(), "bin", "testprogram"), archive, runtime.GOARCH); err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(localstack.ImagePause)
	if err != nil {
		t.Fatal(err)
	}
	image, err := tarball.ImageFromPath(archive, &tag)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/v2/{$}", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/v2/app/manifests/{reference}", func(w http.ResponseWriter, r *http.Request) {
		manifest, err := image.RawManifest()
		digest, digestErr := image.Digest()
		mediaType, typeErr := image.MediaType()
		serve(w, r, errors.Join(err, digestErr, typeErr), manifest, string(mediaType), digest.String())
	})
	mux.HandleFunc("/v2/app/blobs/{digest}", func(w http.ResponseWriter, r *http.Request) {
		blob, err := blobOf(image, r.PathValue("digest"))
		serve(w, r, err, blob, "application/octet-stream", r.PathValue("digest"))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

// blobOf is the configuration of an image, or a layer.
func blobOf(image v1.Image, digest string) ([]byte, error) {
	if config, err := image.ConfigName(); err != nil || config.String() == digest {
		raw, rawErr := image.RawConfigFile()
		return raw, errors.Join(err, rawErr)
	}
	hash, err := v1.NewHash(digest)
	if err != nil {
		return nil, err
	}
	layer, err := image.LayerByDigest(hash)
	if err != nil {
		return nil, err
	}
	blob, err := layer.Compressed()
	if err != nil {
		return nil, err
	}
	defer blob.Close() //nolint:errcheck // It was only read.
	return io.ReadAll(blob)
}

func serve(w http.ResponseWriter, r *http.Request, err error, content []byte, mediaType, digest string) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Docker-Content-Digest", digest)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}
