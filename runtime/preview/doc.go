// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package preview shows what a shim would do, and why, without doing it:
// it reads a workload, looks at the runtime, asks the same plan as the shim, and
// prints the answer. Compute and the printing are pure; observe.go is the part
// that looks, and it only reads. The command is for nodes and so for Linux; what is pure
// is for the kubectl plugin too, on every system.
package preview
