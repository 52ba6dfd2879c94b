// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package quota decides which NodeWorkloads the ResourceQuotas of a namespace have room for.
// A NodeWorkload uses of a quota what a Pod of its template would. It writes nothing: what
// quotas say of Pods is what the API server's own controller counted, and the Ledger knows
// what was promised to NodeWorkloads that are not known yet.
package quota
