// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package subresources

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// readBody reads what is posted about a resource: an object of a kind, as JSON, of most bytes.
func readBody(w http.ResponseWriter, req *http.Request, resource, kind string, most int64, into any) error {
	if media, _, err := mime.ParseMediaType(req.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, http.MethodPost, v1alpha1Resource(resource), "", "the body must be application/json", 0, true)
	}
	content, err := io.ReadAll(http.MaxBytesReader(w, req.Body, most))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", most))
	case err != nil:
		return apierrors.NewBadRequest("read the body: " + err.Error())
	}
	if err := json.Unmarshal(content, into); err != nil {
		return apierrors.NewBadRequest("read the " + kind + ": " + err.Error())
	}
	return nil
}
