// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package localstack

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// ProgramPath is where the images hold the test program.
const ProgramPath = "/testprogram"

// imageTime is the age of everything in the images, so that the same program
// gives the same digests.
var imageTime = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const (
	passwd = "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n"
	group  = "root:x:0:\nnonroot:x:65532:\nextra:x:65533:nonroot\n"
)

// WriteImages writes a docker archive with all images: one layer with the
// static program and the few files a container's user is looked up in.
func WriteImages(program, archive, architecture string) error {
	layer, err := programLayer(program)
	if err != nil {
		return fmt.Errorf("image layer: %w", err)
	}
	images := map[name.Tag]v1.Image{}
	for ref, change := range map[string]func(*v1.Config){
		ImageV1:        func(c *v1.Config) { c.Env = append(c.Env, "IMAGE_VERSION=v1") },
		ImageV2:        func(c *v1.Config) { c.Env = append(c.Env, "IMAGE_VERSION=v2") },
		ImageNonRoot:   func(c *v1.Config) { c.User = "65532" },
		ImageNamedUser: func(c *v1.Config) { c.User = "nonroot" },
		ImagePause:     func(c *v1.Config) { c.Cmd = []string{"pause"} },
	} {
		tag, err := name.NewTag(ref)
		if err != nil {
			return err
		}
		if images[tag], err = newImage(layer, architecture, change); err != nil {
			return fmt.Errorf("image %s: %w", ref, err)
		}
	}
	return tarball.MultiWriteToFile(archive, images)
}

func newImage(layer v1.Layer, architecture string, change func(*v1.Config)) (v1.Image, error) {
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", architecture
	file.Created = v1.Time{Time: imageTime}
	file.Config.Entrypoint = []string{ProgramPath}
	file.Config.WorkingDir = "/"
	file.Config.Env = []string{"PATH=/"}
	change(&file.Config)
	return mutate.ConfigFile(image, file)
}

func programLayer(program string) (v1.Layer, error) {
	content, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	return newLayer([]layerFile{
		{"etc/", 0o755, nil},
		{"etc/passwd", 0o644, []byte(passwd)},
		{"etc/group", 0o644, []byte(group)},
		{"root/", 0o700, nil},
		{"home/nonroot/", 0o755, nil},
		{"tmp/", 0o1777, nil},
		{"data/", 0o1777, nil},
		{ProgramPath[1:], 0o755, content},
	})
}

// layerFile is a folder when it has no data.
type layerFile struct {
	name string
	mode int64
	data []byte
}

func newLayer(files []layerFile) (v1.Layer, error) {
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	for _, entry := range files {
		header := &tar.Header{Name: entry.name, Mode: entry.mode, Size: int64(len(entry.data)), ModTime: imageTime, Typeflag: tar.TypeReg}
		if entry.data == nil {
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(entry.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	// Compressed once: a layer is read for its digest, its size and its content.
	var compressed bytes.Buffer
	zip, err := gzip.NewWriterLevel(&compressed, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	if _, err := buffer.WriteTo(zip); err != nil {
		return nil, err
	}
	if err := zip.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(compressed.Bytes())), nil
	})
}
