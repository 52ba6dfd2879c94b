// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package subresources

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// respond sends an object as JSON, which is all that this API speaks.
func respond(w http.ResponseWriter, code int, object any) {
	content, err := json.Marshal(object)
	if err != nil {
		http.Error(w, "encode the answer: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(content) // the caller has left
}

// fail sends an error as the Status that clients know.
func fail(w http.ResponseWriter, status *metav1.Status) {
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	respond(w, int(status.Code), status)
}

// statusOf is the Status of what went wrong about a resource.
func statusOf(resource, name string, err error) *metav1.Status {
	var refused refusal
	var known apierrors.APIStatus
	status := metav1.Status{}
	switch {
	case errors.As(err, &refused):
		status = apierrors.NewForbidden(v1alpha1Resource(resource), name, refused).Status()
	case errors.As(err, &known):
		status = known.Status()
		status.Message = err.Error()
	default:
		status = apierrors.NewServiceUnavailable(err.Error()).Status()
	}
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	return &status
}
