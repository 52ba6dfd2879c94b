// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package admitted says which Pod the API server is asked to admit for a template, and what
// runs of the Pod that it answers with. The manager and the plugin ask with the same words. It
// is pure.
package admitted
