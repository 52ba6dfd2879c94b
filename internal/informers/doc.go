// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package informers decides how soon an API server that has failed is asked again by what follows its objects:
// client-go's reflectors wait for up to a minute, in which a deletion would not be heard of. It keeps no state.
package informers
