// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package admission decides whether the template of a ManagedWorkload is accepted, and
// says why not in the template's own paths: by the table of fields, and by asking the
// API server to admit the template as a Pod. It touches nothing: the Pod is asked for
// as a dry run. It remembers its verdicts in memory.
package admission
