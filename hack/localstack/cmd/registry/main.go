// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Registry is a container registry that keeps what is pushed to it in memory:
//
//	registry --listen 127.0.0.1:5000
package main

import (
	"flag"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:5000", "address")
	flag.Parse()
	logger := log.New(os.Stderr, "", log.LstdFlags|log.LUTC)
	server := &http.Server{
		Addr:              *listen,
		Handler:           registry.New(registry.Logger(logger)),
		ReadHeaderTimeout: 10 * time.Second,
	}
	logger.Fatal(server.ListenAndServe())
}
