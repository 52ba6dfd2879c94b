// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package handshake serves HTTPS, and bounds what TLS handshakes cost: whoever reaches a port of the
// manager can ask for one before he shows who he is.
//
// A handshake has a turn only while it is computed, not while the client is awaited, so a silent
// client keeps no place. Turns go round between addresses, and addresses of callers that were recognised
// have turns of their own. Of one address most turns go to the newest handshake: the API server may
// share its address with a flood, by address translation or as a neighbour on its node, and must not
// wait behind all of it.
package handshake
