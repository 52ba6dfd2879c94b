// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"encoding/json"
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// errTooLarge says that a status of that size was refused before.
var errTooLarge = errors.New("the status is too large")

// tooLargeWords are what etcd and its client answer, in errors that have no reason.
var tooLargeWords = []string{"request is too large", "message larger than max"}

// isTooLarge says that an object is not taken for its size, or for the size of a part.
func isTooLarge(err error) bool {
	if err == nil {
		return false
	}
	if errors.Is(err, errTooLarge) || apierrors.IsRequestEntityTooLargeError(err) {
		return true
	}
	for _, cause := range []field.ErrorType{field.ErrorTypeTooLong, field.ErrorTypeTooMany} {
		if apierrors.HasStatusCause(err, metav1.CauseType(cause)) {
			return true
		}
	}
	for _, words := range tooLargeWords {
		if strings.Contains(err.Error(), words) {
			return true
		}
	}
	return false
}

// sizeOf is the size of a status in bytes.
func sizeOf(st *v1alpha1.NodeWorkloadStatus) int {
	data, err := json.Marshal(st)
	if err != nil {
		return 0
	}
	return len(data)
}

// tooLarge says that a status of that size was refused before.
func (p *publisher) tooLarge(uid types.UID, st *v1alpha1.NodeWorkloadStatus) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	refused, found := p.refused[uid]
	return found && sizeOf(st) >= refused
}

// noteTooLarge notes that a status of that size is refused.
func (p *publisher) noteTooLarge(uid types.UID, st *v1alpha1.NodeWorkloadStatus) {
	size := sizeOf(st)
	p.mu.Lock()
	defer p.mu.Unlock()
	if refused, found := p.refused[uid]; !found || size < refused {
		p.refused[uid] = size
	}
}
