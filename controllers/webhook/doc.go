// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package webhook answers the API server when a ManagedWorkload is applied, so that a
// template that would be refused is refused at once, with all reasons. It decides
// nothing that counts: where it is not asked, or cannot ask, the manager decides again.
// Its server has its certificate from the package certificate.
package webhook
