// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build race

package main

// raced: the race detector is on, which takes memory of its own.
const raced = true
