// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package runtimeerror

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestCodes(t *testing.T) {
	is := map[codes.Code]func(error) bool{
		codes.NotFound:         IsNotFound,
		codes.Unimplemented:    IsUnimplemented,
		codes.DeadlineExceeded: IsTimeout,
		codes.Unknown:          IsUnknown,
	}
	for want, has := range is {
		for code := range is {
			err := status.Error(code, "x")
			if has(err) != (code == want) || has(fmt.Errorf("stop container: %w", err)) != (code == want) {
				t.Errorf("an error with code %s is taken for %s or the other way round", code, want)
			}
		}
		for _, err := range []error{nil, errors.New("not found"), context.DeadlineExceeded} {
			if has(err) {
				t.Errorf("%v without a code is taken for %s", err, want)
			}
		}
	}
	if err := New("no ID"); status.Code(err) != codes.Internal || Message(err) != "no ID" {
		t.Errorf("New = %v", err)
	}
}

// A call without an answer may have had its effect.
func TestIsCutOff(t *testing.T) {
	for _, code := range []codes.Code{codes.Canceled, codes.DeadlineExceeded, codes.Unavailable} {
		if !IsCutOff(fmt.Errorf("pull image: %w", status.Error(code, "x"))) {
			t.Errorf("an error with code %s is taken for an answer", code)
		}
	}
	if !IsCutOff(context.Canceled) || IsCutOff(nil) || IsCutOff(status.Error(codes.Unknown, "denied")) {
		t.Error("a cancelled context is taken for an answer, or an answer for none")
	}
}

func TestTexts(t *testing.T) {
	wrapped := fmt.Errorf("create container: %w", fmt.Errorf("again: %w", status.Error(codes.Unknown, "no space left")))
	if got, want := Text(wrapped), "rpc error: code = Unknown desc = no space left"; got != want {
		t.Errorf("Text = %q, want %q", got, want)
	}
	if got, want := Message(wrapped), "no space left"; got != want {
		t.Errorf("Message = %q, want %q", got, want)
	}
	plain := fmt.Errorf("create container: %w", errors.New("closed"))
	if Text(plain) != plain.Error() || Message(plain) != plain.Error() {
		t.Errorf("without a code: Text %q, Message %q", Text(plain), Message(plain))
	}
}
