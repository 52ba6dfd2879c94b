// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package localstack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

const registryName = "registry"

// registryHost is what the names of the images begin with.
const registryHost = "managedworkload.dev"

// startRegistry starts an empty registry, and has each containerd of the stack look there
// for images of registryHost.
func (s *Stack) startRegistry(ctx context.Context) error {
	program := s.layout.binary(registryName)
	if err := s.buildProgram(ctx, "./hack/localstack/cmd/registry", program); err != nil {
		return err
	}
	ports, err := freePorts(1)
	if err != nil {
		return err
	}
	s.registryURL = "http://" + loopback(ports[0])
	dir := filepath.Join(s.layout.registries(), registryHost)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	hosts := fmt.Sprintf("server = %q\n", s.registryURL)
	if err := os.WriteFile(filepath.Join(dir, "hosts.toml"), []byte(hosts), 0o644); err != nil {
		return err
	}
	s.Registry = s.component(registryName, program, httpReady(s.registryURL+"/v2/"), "--listen="+loopback(ports[0]))
	s.progress("Starting the registry")
	return s.Registry.Start(ctx)
}

// Push gives the registry an image of the test program under a name that begins with
// registryHost. Its environment has the tag as IMAGE_VERSION.
func (s *Stack) Push(ctx context.Context, ref string) error { return s.PushTo(ctx, s.registryURL, ref) }

// PushTo gives another registry, by its address, such an image. The host of the name does
// not matter.
func (s *Stack) PushTo(ctx context.Context, registry, ref string) error {
	tag, image, err := s.programImage(ref)
	if err != nil {
		return err
	}
	return push(ctx, registry, tag, image)
}

// PushLarge gives the registry images as Push does, each with a file that takes so many bytes
// on a node's disk and that no other image has.
func (s *Stack) PushLarge(ctx context.Context, bytes int, refs ...string) error {
	program, err := programLayer(s.opts.TestProgram)
	if err != nil {
		return fmt.Errorf("image layer: %w", err)
	}
	content := make([]byte, bytes)
	for _, ref := range refs {
		tag, err := name.NewTag(ref)
		if err != nil {
			return err
		}
		copy(content, ref)
		layer, err := newLayer([]layerFile{{"large", 0o644, content}})
		if err != nil {
			return fmt.Errorf("image layer: %w", err)
		}
		image, err := newImage(program, runtime.GOARCH, func(*v1.Config) {})
		if err != nil {
			return err
		}
		if image, err = mutate.AppendLayers(image, layer); err != nil {
			return fmt.Errorf("image %s: %w", ref, err)
		}
		if err := push(ctx, s.registryURL, tag, image); err != nil {
			return err
		}
	}
	return nil
}

func push(ctx context.Context, registry string, tag name.Tag, image v1.Image) error {
	layers, err := image.Layers()
	if err != nil {
		return err
	}
	config, err := partial.ConfigLayer(image)
	if err != nil {
		return err
	}
	repository := registry + "/v2/" + tag.RepositoryStr()
	for _, blob := range append(layers, config) {
		if err := pushBlob(ctx, repository, blob); err != nil {
			return fmt.Errorf("push %s: %w", tag, err)
		}
	}
	manifest, err := image.RawManifest()
	if err != nil {
		return err
	}
	media, err := image.MediaType()
	if err != nil {
		return err
	}
	return upload(ctx, http.MethodPut, repository+"/manifests/"+tag.TagStr(), string(media), manifest)
}

// Import gives one node an image as Push gives it to the registry.
func (n *Node) Import(ctx context.Context, ref string) error {
	tag, image, err := n.stack.programImage(ref)
	if err != nil {
		return err
	}
	archive := n.layout.path("import.tar")
	if err := tarball.WriteToFile(archive, tag, image); err != nil {
		return fmt.Errorf("write image %s: %w", ref, err)
	}
	return n.stack.importArchive(ctx, n.layout, archive, []string{ref})
}

// Ctr asks the node's containerd, past CRI.
func (n *Node) Ctr(ctx context.Context, args ...string) error {
	args = append([]string{"--address", n.layout.containerdSocket(), "--namespace", "k8s.io"}, args...)
	return run(ctx, command{path: n.stack.tools.ctr, args: args})
}

func (s *Stack) programImage(ref string) (name.Tag, v1.Image, error) {
	tag, err := name.NewTag(ref)
	if err != nil {
		return tag, nil, err
	}
	layer, err := programLayer(s.opts.TestProgram)
	if err != nil {
		return tag, nil, fmt.Errorf("image layer: %w", err)
	}
	image, err := newImage(layer, runtime.GOARCH, func(c *v1.Config) { c.Env = append(c.Env, "IMAGE_VERSION="+tag.TagStr()) })
	return tag, image, err
}

func pushBlob(ctx context.Context, repository string, blob v1.Layer) error {
	digest, err := blob.Digest()
	if err != nil {
		return err
	}
	content, err := blob.Compressed()
	if err != nil {
		return err
	}
	data, err := io.ReadAll(content)
	if err := errors.Join(err, content.Close()); err != nil {
		return err
	}
	return upload(ctx, http.MethodPost, repository+"/blobs/uploads/?digest="+digest.String(), "application/octet-stream", data)
}

func upload(ctx context.Context, method, url, media string, body []byte) (err error) {
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", media)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	if response.StatusCode != http.StatusCreated {
		said, _ := io.ReadAll(response.Body) // the status says enough
		return fmt.Errorf("%s %s: %s %s", method, url, response.Status, said)
	}
	return nil
}
