// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/podworker"
)

// objectAbsent says that err is the API server's answer that it has no object of
// that name. An API server that does not know the kind (its CRD is missing, or the
// address is another server's) answers NotFound too, but not about the object.
func objectAbsent(err error, name string) bool {
	if !apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		return false
	}
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && status.ErrStatus.Details != nil && status.ErrStatus.Details.Name == name
}

// instanceAbsent asks the API server itself whether it lacks this instance of a
// workload: there is no object of its name, or one with another UID. An error means
// that this is not known.
func instanceAbsent(ctx context.Context, live client.Reader, id podworker.Identity) (bool, error) {
	nw := &v1alpha1.NodeWorkload{}
	err := live.Get(ctx, client.ObjectKey{Namespace: id.Namespace, Name: id.Name}, nw)
	switch {
	case err == nil:
		return nw.UID != id.UID, nil
	case objectAbsent(err, id.Name):
		return true, nil
	}
	return false, fmt.Errorf("read NodeWorkload %s/%s from the API server: %w", id.Namespace, id.Name, err)
}
