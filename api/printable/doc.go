// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package printable decides what of a foreign text a terminal may be shown. Names, reasons,
// output of probes and errors of a cluster reach one by kubectl as they are.
package printable
