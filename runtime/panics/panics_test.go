// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package panics

import (
	"errors"
	"testing"

	"github.com/go-logr/logr"
)

func TestContain(t *testing.T) {
	if err := Contain(logr.Discard(), "part", func() error { panic("boom") }); err == nil || err.Error() != "panic in part: boom" {
		t.Errorf("error %v", err)
	}
	want := errors.New("its own")
	if err := Contain(logr.Discard(), "part", func() error { return want }); !errors.Is(err, want) {
		t.Errorf("error %v, want its own", err)
	}
}
