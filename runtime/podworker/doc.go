// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podworker runs one worker for each workload of the node: it observes
// the containers, asks the plan what to do, has it carried out, and publishes
// the status. Kills of single containers, and the starts after them, are carried out beside the
// steps of the worker (parts), which continues with the other containers. A worker that was asked to
// end never starts anything again. It
// touches the checkpoints below its directory, and everything else through the
// interfaces in ports.go.
package podworker
