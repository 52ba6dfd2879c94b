// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package pause

import (
	"os"
	"os/signal"
	"syscall"
)

// Name is the subcommand.
const Name = "pause"

// A process that was started to pause does so before packages that sort later are initialised:
// it needs none of them, and their memory would be that of every node.
func init() {
	if len(os.Args) == 2 && os.Args[1] == Name {
		Wait()
		os.Exit(0)
	}
}

// Wait returns when the process is asked to end.
func Wait() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	<-ended
}
