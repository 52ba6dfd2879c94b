// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package atomicfiles shows a set of files in a directory and replaces all of them at
// once. It decides the layout below that directory and touches nothing outside of it:
//
//	<dir>/..2026_01_02_15_04_05.000000000/  the files of one version
//	<dir>/..data                            a link to the version that counts
//	<dir>/<first part of a path>            a link to ..data/<first part of a path>
//
// A version is complete, with its modes and owners, before ..data leads to it; a reader
// that keeps to one resolved ..data never sees two versions mixed. The layout is the
// kubelet's, so that programs that watch ..data work here too.
//
// One caller at a time may write to a directory.
//
// The kubelet's counterpart is pkg/volume/util/atomic_writer.go.
package atomicfiles
