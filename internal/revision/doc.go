// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package revision decides how a ManagedWorkloadRevision holds a template twice: whole as it
// was admitted, for nodes, and by a patch as the user wrote it, for history, undo and the
// hash. It touches nothing: manager and plugin share it, and it is pure.
package revision
