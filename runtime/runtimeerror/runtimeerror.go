// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package runtimeerror

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// IsNotFound returns whether the runtime does not have the object of the call.
func IsNotFound(err error) bool { return has(err, codes.NotFound) }

// IsUnimplemented returns whether the runtime does not offer the call.
func IsUnimplemented(err error) bool { return has(err, codes.Unimplemented) }

// IsTimeout returns whether the call's deadline has passed.
func IsTimeout(err error) bool { return has(err, codes.DeadlineExceeded) }

// IsOutputHeld reports whether a command has ended and a process that it left behind holds its output open, so that its exit
// code is not known. (containerd internal/cri/server/container_execsync.go:drainExecSyncIO)
func IsOutputHeld(err error) bool {
	return err != nil && strings.Contains(err.Error(), "io is still held by other processes")
}

// IsUnavailable returns whether the runtime could not be asked.
func IsUnavailable(err error) bool { return has(err, codes.Unavailable) }

// IsCutOff returns whether the call may have had its effect although it failed: nothing
// is known of the runtime's answer.
func IsCutOff(err error) bool {
	return has(err, codes.Canceled) || has(err, codes.DeadlineExceeded) || has(err, codes.Unavailable) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// IsUnknown returns whether the runtime gave an error of its own, without a code
// that says more.
func IsUnknown(err error) bool { return has(err, codes.Unknown) }

// New returns an error about an answer of the runtime that cannot be used.
func New(message string) error { return status.Error(codes.Internal, message) }

// Text returns the error as the runtime gave it, with its code.
func Text(err error) string {
	if cause, ok := errors.AsType[grpcError](err); ok {
		return cause.Error()
	}
	return err.Error()
}

// Message returns the message of the runtime's error, without its code.
func Message(err error) string {
	if cause, ok := errors.AsType[grpcError](err); ok {
		return cause.GRPCStatus().Message()
	}
	return err.Error()
}

type grpcError interface {
	error
	GRPCStatus() *status.Status
}

func has(err error, code codes.Code) bool {
	cause, ok := errors.AsType[grpcError](err)
	return ok && cause.GRPCStatus().Code() == code
}
