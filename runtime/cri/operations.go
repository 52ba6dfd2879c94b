// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"strings"
	"time"
	"unicode"

	"google.golang.org/grpc"
)

// Observer is called after each call of the runtime, with the kubelet's name of the operation.
type Observer func(operation string, took time.Duration, err error)

// interceptor observes calls.
func (o Observer) interceptor() grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		began := time.Now()
		err := invoke(ctx, method, req, reply, conn, opts...)
		if o != nil {
			o(operation(method), time.Since(began), err)
		}
		return err
	}
}

// operation is the kubelet's name of a method: /runtime.v1.RuntimeService/RunPodSandbox is
// run_podsandbox. (kuberuntime/instrumented_services.go)
func operation(method string) string {
	method = strings.Replace(method[strings.LastIndexByte(method, '/')+1:], "PodSandbox", "Podsandbox", 1)
	var b strings.Builder
	for i, r := range method {
		if i > 0 && unicode.IsUpper(r) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
