// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package certificate keeps the certificates of the manager's servers, one Target each: every
// replica serves with what the target's Secret has, and the leader makes and renews it with
// cert-controller, which writes the CA where the API server looks for it. It decides nothing
// about requests. A certificate that cannot be had ends nothing: it is tried again.
package certificate
