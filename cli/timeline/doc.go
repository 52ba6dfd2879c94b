// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package timeline draws the ends of containers, a lane for each container of each node: as
// text, or as one page of HTML that needs nothing else. It is pure.
package timeline
