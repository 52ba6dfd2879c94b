// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"fmt"

	"github.com/distribution/reference"
)

// ImageName adds ":latest" to an image without tag and digest, and leaves the rest
// of the name alone. It fails for what is not the name of an image.
// (kubelet images/image_manager.go:applyDefaultImageTag)
func ImageName(image string) (string, error) {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return "", fmt.Errorf("couldn't parse image name %q: %w", image, err)
	}
	if !reference.IsNameOnly(named) {
		return image, nil
	}
	return image + ":latest", nil
}
