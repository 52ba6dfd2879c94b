// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package template decides what a Pod template means in a ManagedWorkload: which
// of its fields are honoured, ignored or refused, which defaults it gets, what
// identifies it, and the desired Pod that a NodeWorkload stands for. It is pure:
// it reads and changes only the values it is given.
package template
