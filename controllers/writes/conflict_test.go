// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package writes

import (
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestConflictsAreQuiet(t *testing.T) {
	mws := schema.GroupResource{Resource: "managedworkloads"}
	conflict := fmt.Errorf("write: %w", apierrors.NewConflict(mws, "web", errors.New("changed")))
	exists := apierrors.NewAlreadyExists(mws, "web")
	tests := map[string]struct {
		err       error
		soon      bool
		wantError bool
		want      time.Duration
	}{
		"none":               {want: time.Minute},
		"a conflict":         {err: conflict, want: retryAfter},
		"a conflict, soon":   {err: conflict, soon: true, want: time.Millisecond},
		"several":            {err: errors.Join(conflict, errors.Join(exists, conflict)), want: retryAfter},
		"a conflict and not": {err: errors.Join(conflict, errors.New("boom")), wantError: true},
		"another":            {err: errors.New("boom"), wantError: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			requeue := time.Minute
			if tc.soon {
				requeue = time.Millisecond
			}
			res, err := Result(t.Context(), requeue, tc.err)
			if (err != nil) != tc.wantError || res.RequeueAfter != tc.want {
				t.Errorf("result = %v, %v", res, err)
			}
		})
	}
}
