// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package text bounds what people and programs wrote before it goes into a status, a
// record, an event or a checkpoint. It is pure.
package text
