// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package localstack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// importProduct builds the program and gives the kubelet's containerd the image
// that the Dockerfile describes.
func (s *Stack) importProduct(ctx context.Context) error {
	if err := s.prepareOurs(ctx); err != nil {
		return err
	}
	recipe, err := readRecipe(filepath.Join(s.tools.root, "Dockerfile"))
	if err != nil {
		return fmt.Errorf("read the Dockerfile: %w", err)
	}
	node := s.layout.kubeletNode()
	archive := node.path("product.tar")
	if err := writeProductImage(recipe, s.opts.Binary, archive, s.opts.ProductImages); err != nil {
		return fmt.Errorf("write the product's image: %w", err)
	}
	s.progress("Importing the product's image")
	return s.importArchive(ctx, node, archive, s.opts.ProductImages)
}

// recipe is what the last stage of a Dockerfile makes: one file of an earlier
// stage on nothing.
type recipe struct {
	target     string
	user       string
	entrypoint []string
}

// isNoFile reports whether an instruction makes nothing in the file system.
func isNoFile(instruction string) bool {
	return strings.HasPrefix(instruction, "#") || slices.Contains([]string{"", "ARG", "LABEL"}, instruction)
}

// readRecipe understands the few instructions that the Dockerfile's last stage
// has, and refuses any other.
func readRecipe(file string) (recipe, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return recipe{}, err
	}
	_, stage, found := strings.Cut(string(content), "\nFROM scratch\n")
	if !found || strings.Contains(stage, "\nFROM ") {
		return recipe{}, errors.New("its last stage is not from scratch")
	}
	var r recipe
	for line := range strings.Lines(strings.ReplaceAll(stage, "\\\n", " ")) {
		instruction, argument, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch fields := strings.Fields(argument); {
		case isNoFile(instruction):
		case instruction == "COPY" && len(fields) == 3 && fields[0] == "--from=build" && r.target == "":
			r.target = fields[2]
		case instruction == "USER" && len(fields) == 1:
			r.user = fields[0]
		case instruction == "ENTRYPOINT" && json.Unmarshal([]byte(argument), &r.entrypoint) == nil:
		default:
			return recipe{}, fmt.Errorf("unexpected instruction %q", strings.TrimSpace(line))
		}
	}
	return r, nil
}

func writeProductImage(r recipe, program, archive string, refs []string) error {
	content, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	layer, err := newLayer([]layerFile{{strings.TrimPrefix(r.target, "/"), 0o755, content}})
	if err != nil {
		return err
	}
	image, err := newImage(layer, runtime.GOARCH, func(c *v1.Config) {
		c.Entrypoint, c.User = r.entrypoint, r.user
		c.WorkingDir, c.Env = "/", []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"} // as docker does
	})
	if err != nil {
		return err
	}
	images := map[name.Tag]v1.Image{}
	for _, ref := range refs {
		tag, err := name.NewTag(ref)
		if err != nil {
			return err
		}
		images[tag] = image
	}
	return tarball.MultiWriteToFile(archive, images)
}
