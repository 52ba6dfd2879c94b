// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package goroutines starts some.
package goroutines

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/managedworkload/managedworkload/runtime/panics"
)

func work() error { return nil }

func start(ctx context.Context, wg *sync.WaitGroup) {
	_, cancel := context.WithCancel(ctx)
	go func() { _ = panics.Contain(logr.Discard(), "work", work) }()
	go func() { _ = work() }()   // found
	go keep()                    // found
	wg.Go(func() { _ = work() }) // found
	wg.Go(keep)                  // found
	time.AfterFunc(0, keep)      // found
	time.AfterFunc(0, cancel)
	context.AfterFunc(ctx, func() { cancel() })
	wg.Go(func() {
		_ = panics.Contain(logr.Discard(), "work", func() error {
			go keep() // found
			return nil
		})
	})
	wg.Go(func() { // found
		go func() { _ = panics.Contain(logr.Discard(), "work", work) }()
		keep()
	})
}

func keep() {}
