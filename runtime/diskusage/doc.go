// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package diskusage measures what workloads with a disk limit use of the node's disk:
// emptyDirs and logs by walking them, writable layers by asking the runtime. It reads only,
// follows no link, crosses no mount and waits for no file system without a bound. It decides
// nothing: plan.DecideEviction does, from what was measured, which is never more than what is
// used. Workloads without a limit cost nothing.
package diskusage
